"""Routes for jobs, schedules, policies, consolidation, forecasts and self-tests."""
