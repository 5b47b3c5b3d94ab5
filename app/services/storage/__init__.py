"""Find and write stored memories: the functions that all other services share."""
