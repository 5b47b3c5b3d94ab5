"""A tenant's policy, its defaults, presets, budget, night hours, and API keys."""
