"""Schemas of memories, uses and chat messages, and of the envelopes that carry them through the stream."""
