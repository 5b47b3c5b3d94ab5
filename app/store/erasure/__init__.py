"""SQL for erasures, hidden memories, the ledger, and replay after a restore."""
