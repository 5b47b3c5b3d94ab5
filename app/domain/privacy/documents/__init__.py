"""Documents for people: erasure reports, answers to requests, and their texts (`en.toml`)."""
