"""The change feed: types of changes."""
