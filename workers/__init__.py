"""Celery's side: tasks of a line or two, each calling one service. Nothing imports this package."""
