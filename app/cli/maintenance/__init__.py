"""Commands for jobs, schedules, policies, consolidation, dead letters, forecasts and usage."""
