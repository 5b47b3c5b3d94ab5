"""Find and rank memories for a query, explain results, and replay recorded searches."""
