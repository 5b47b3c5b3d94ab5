"""Notes of promoted memories as Markdown files: their form, and the check for edits."""
