"""SQL for memories, their links, events, subjects and counts."""
