"""Webhooks: endpoints and deliveries."""
