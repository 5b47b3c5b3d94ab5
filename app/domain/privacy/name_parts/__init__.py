"""Find parts of a person's name in texts, and compare subjects' names with a given name."""
