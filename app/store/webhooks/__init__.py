"""Tables of webhooks."""
