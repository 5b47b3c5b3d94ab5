"""Commands that run, check and administer the service."""
