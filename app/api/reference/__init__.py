"""The reference of the API: its OpenAPI description with examples, and the page `/docs` that shows it."""
