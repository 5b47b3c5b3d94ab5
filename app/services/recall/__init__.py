"""Choose the memories that are relevant to a conversation."""
