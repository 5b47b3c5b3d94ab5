"""Read the memories that are files, and rename them."""
