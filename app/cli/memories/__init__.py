"""Commands that send, search, recall and change memories."""
