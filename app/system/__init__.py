"""Operating-system processes: end a process with its parent, and find the processes of a home's service."""
