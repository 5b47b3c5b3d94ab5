"""SQL for tiers, archived and cold memories, and their removal."""
