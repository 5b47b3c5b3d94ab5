"""HTTP API, one module per resource: headers, status codes and response shapes; no SQL, no business logic."""
