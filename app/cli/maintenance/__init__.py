"""Commands for jobs, schedules, policies, consolidation, forecasts and usage."""
