"""Stand-in for the package `memory_decay`: its own tests then drive a running Ebbing over HTTP."""
