"""Files of the memory tool: paths, the texts of its answers, and edits of a text by lines and strings."""
