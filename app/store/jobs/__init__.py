"""SQL for jobs and schedules."""
