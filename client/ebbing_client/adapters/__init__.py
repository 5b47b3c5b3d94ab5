"""Adapters for agent frameworks: one module per framework, which imports the framework when it is imported itself.

The other modules here don't need a framework: `steps` sends calls for both clients, `items` stores values under
namespaces and keys, `log` stores an ordered history, and `notes` stores messages to recall.
"""
