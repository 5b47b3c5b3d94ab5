"""Routes for maintenance, jobs, schedules, policies, consolidation, forecasts and self-tests."""
