"""Privacy: what is personal in a text, how long it may be kept, and what an erasure has to do."""
