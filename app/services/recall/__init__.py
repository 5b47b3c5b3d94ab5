"""Choose the memories that a conversation should bring to mind."""
