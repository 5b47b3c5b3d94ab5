"""HTTP in and out, one module a noun: headers, status codes and shapes; no SQL, no formula."""
