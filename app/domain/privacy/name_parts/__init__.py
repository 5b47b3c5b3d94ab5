"""Parts of names, which may mean a person or another one, and names that are like another name."""
