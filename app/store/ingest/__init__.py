"""SQL for envelopes from the stream and for dead letters."""
