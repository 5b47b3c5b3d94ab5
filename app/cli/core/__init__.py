"""The commands' HTTP client, output, errors and options."""
