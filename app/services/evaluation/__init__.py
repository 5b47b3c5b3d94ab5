"""Test whether tenants' memories are found, and simulate a year of use."""
