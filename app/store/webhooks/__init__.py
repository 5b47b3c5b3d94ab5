"""SQL for webhooks, their turns of sending, and their deliveries."""
