"""HTTP API, one module per resource: headers and response shapes; no SQL, no business logic.

`app.errors` decides the status code of each error.
"""
