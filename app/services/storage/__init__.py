"""Find stored memories, and write them: the parts that every capability with memories shares."""
