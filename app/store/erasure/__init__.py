"""SQL for erasures, hidden memories, the ledger, and what a restore repeats."""
