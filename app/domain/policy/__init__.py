"""A tenant's policy, its defaults, presets, budget and night schedule, and API keys."""
