"""Ten years without use, as tests of adapters let them pass."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ebbing_client import Ebbing


def list_leaving(client: Ebbing) -> set[str]:
    """Return the ids of the memories that nobody uses for ten years and that then leave the active tier."""
    as_of = (datetime.now(UTC) + timedelta(days=3650)).isoformat()
    report = client.call("POST", "/v1/maintenance/archive", json={"dry_run": True, "as_of": as_of})
    return {change["id"] for change in report["changes"]}
