"""Celery tasks of one or two lines, each calling one service. Nothing imports this package."""
