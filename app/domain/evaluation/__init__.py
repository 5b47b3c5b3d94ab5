"""Questions of self-tests, and their parameters."""
