"""Write, update and remove the notes of promoted memories, and serve them to clients."""
