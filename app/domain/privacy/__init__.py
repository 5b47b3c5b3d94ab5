"""Rules of privacy: detection of personal data, retention, legal holds, exports and erasures."""
