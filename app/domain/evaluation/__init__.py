"""Questions, parameters and results of self-tests."""
