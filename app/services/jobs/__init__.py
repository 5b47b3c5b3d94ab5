"""Queue, schedule and run background jobs."""
