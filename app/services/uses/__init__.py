"""Apply uses and reviews of memories: reinforce them, restore them, and schedule the next review."""
