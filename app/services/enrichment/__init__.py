"""Index, score and scan stored memories: the stages that the lanes' workers run."""
