"""Words, tokens, time expressions and windows of a text."""
