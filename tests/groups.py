"""Tell pytest-xdist the group of each test: 3.8 writes it where pytest 9.2 no longer looks.

Without it, tests of one `xdist_group` run on every worker, and each starts the service that they share.
See https://github.com/pytest-dev/pytest-xdist/issues/1386.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.nodeid import NodeId


def name_groups(items: Iterable[pytest.Item]) -> None:
    """Append `@GROUP` to the ids of tests that have a group, as `--dist=loadgroup` expects."""
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and not item.nodeid.endswith(f"@{group.args[0]}"):
            path, _, name = item.nodeid.partition("::")
            item._id = NodeId(path=path, names=(f"{name}@{group.args[0]}",))
