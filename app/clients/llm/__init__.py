"""Clients for model providers: requests, retries, circuit breaking, and the validation of responses."""
