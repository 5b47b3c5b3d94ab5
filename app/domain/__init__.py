"""Pure rules and values: no I/O, no clock, no randomness; `now` is an argument."""
