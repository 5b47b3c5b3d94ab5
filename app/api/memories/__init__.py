"""Routes that send, read, search, recall and change memories."""
