"""A year that never was: what is said and asked in it, what other ways of forgetting would keep, and what is found."""
