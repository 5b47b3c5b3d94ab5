"""Server for the Model Context Protocol: tools, resources and prompts, each of which calls routes of the HTTP API.

A tool has no access to services or the store. It sends requests with the caller's API key to the same routes that HTTP
clients use, so that scopes, tenants, limits, validation and the audit log are those of the API.
"""
