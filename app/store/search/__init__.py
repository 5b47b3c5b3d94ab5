"""SQL that finds candidates for searches and recalls, and that records searches."""
