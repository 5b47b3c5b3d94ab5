"""The form of memories, uses and chat messages, and the envelopes that carry them."""
