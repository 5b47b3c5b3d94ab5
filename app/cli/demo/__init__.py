"""The demo, the simulation, and their reports."""
