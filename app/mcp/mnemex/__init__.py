"""The mnemex set of tools, which have the names of the tools of cortexgraph (a memory server for agents)."""
