"""Read promoted memories for notes, and remember which notes are written and who has copies."""
