"""One module a page of the dashboard, with its routes."""
