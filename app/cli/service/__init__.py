"""Commands that start, check and administer the service."""
