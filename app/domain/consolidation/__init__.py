"""Rules of consolidation: group similar memories, decide their outcome, and check summaries against sources."""
