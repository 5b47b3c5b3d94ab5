"""Adapters for agent frameworks: one module per framework, which imports the framework when it is imported itself.

The other modules here don't need a framework: `steps` sends calls for both clients, `items` stores values under
namespaces and keys, `filters` compares values with filters, `log` stores an ordered history, `memory_files` builds the
calls of Anthropic's memory tool, and `memory_tools` has functions that an agent calls.
"""
