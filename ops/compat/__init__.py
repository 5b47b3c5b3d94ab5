"""Run the tests of other memory services against this one."""
