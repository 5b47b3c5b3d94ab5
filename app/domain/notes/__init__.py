"""Notes of promoted memories as Markdown files: their form, and whether somebody has edited one."""
