"""HTTP client, output, errors and options shared by the commands."""
