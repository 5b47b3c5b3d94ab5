"""Model providers: requests, retries, budgets, and the validation of answers."""
