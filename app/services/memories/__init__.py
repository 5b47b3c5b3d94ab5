"""Read, edit, delete, link and explain single memories."""
