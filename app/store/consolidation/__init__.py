"""SQL for groups of similar memories, summaries, merges and supersessions."""
