"""Model providers: calls, retries, budgets, and the prompts' answers."""
