"""Commands for the demo and the simulation, with their reports."""
