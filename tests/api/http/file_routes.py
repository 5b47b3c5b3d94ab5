"""The routes of the memory tool, for the table of `test_routes.py`; no call waits for a worker."""

from __future__ import annotations

from typing import Any

_COMMANDS: dict[str, tuple[str, dict[str, Any]]] = {
    "view": ("read", {"path": "/memories"}),
    "create": ("ingest", {"path": "/memories", "file_text": "x"}),
    "str_replace": ("ingest", {"path": "/memories", "old_str": "x", "new_str": "y"}),
    "insert": ("ingest", {"path": "/memories/x", "insert_line": 0, "insert_text": "x"}),
    "delete": ("ingest", {"path": "/memories/x"}),
    "rename": ("ingest", {"old_path": "/memories/x", "new_path": "/memories/y"}),
}
FILE_ROUTES: dict[tuple[str, str], tuple[str, dict[str, Any], int]] = {
    ("POST", f"/v1/files/{name}"): (scope, {"json": given}, 200) for name, (scope, given) in _COMMANDS.items()
}
