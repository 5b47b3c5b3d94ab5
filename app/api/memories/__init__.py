"""Routes to send, read, search, recall and change memories."""
