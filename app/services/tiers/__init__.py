"""Move memories between the tiers active, archived, cold and deleted, and back."""
