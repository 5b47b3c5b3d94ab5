"""Store accepted memories: drain the stream, update by external id, and manage dead letters."""
