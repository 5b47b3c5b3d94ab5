"""Webhooks: endpoints, messages, signatures and retries."""
