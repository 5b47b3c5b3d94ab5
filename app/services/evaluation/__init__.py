"""Run self-tests that check whether search finds a tenant's memories, and simulate a year of use."""
