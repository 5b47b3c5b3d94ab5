"""SQL for the work queue, words, scores, ratings and what scans find."""
