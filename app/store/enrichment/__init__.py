"""SQL for the work queue, words, scores, ratings and privacy findings."""
