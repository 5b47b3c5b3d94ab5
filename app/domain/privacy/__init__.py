"""Privacy: personal data in texts, its retention, legal holds, exports and erasures."""
