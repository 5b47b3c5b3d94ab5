"""Documents for people: the letter part of erasure reports, answers to requests, and their texts (`en.toml`)."""
