"""APIs of other memory services, each behind a setting."""
