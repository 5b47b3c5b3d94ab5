"""Words, tokens, times and windows of a text."""
