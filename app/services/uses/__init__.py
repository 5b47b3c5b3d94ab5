"""Apply uses and reviews of memories: reinforce and restore the memories, and schedule the next review."""
