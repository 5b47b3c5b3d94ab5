"""SQL for vectors, embedding spaces, windows and the indexes of large tenants."""
