"""Dashboard pages, one module per page with its routes."""
