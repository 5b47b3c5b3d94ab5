"""The mnemex set of tools, under the names of cortexgraph's."""
