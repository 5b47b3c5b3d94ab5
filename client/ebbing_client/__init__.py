"""Python client of Ebbing, a memory service for AI agents.

```python
from ebbing_client import Ebbing

with Ebbing() as ebbing:
    ebbing.add("My son Max is allergic to peanuts.", subject="ann", role="user", wait=5)
    print(ebbing.recall("What can I bake for Max?", subject="ann").text)
```
"""

from ebbing_client.async_client import AsyncEbbing
from ebbing_client.changes import Change
from ebbing_client.client import Ebbing
from ebbing_client.errors import (
    ApiError,
    BacklogFull,
    BadRequest,
    ClientClosed,
    Conflict,
    CursorGone,
    DeadlinePassed,
    EbbingError,
    FieldProblem,
    Invalid,
    LocalServiceError,
    Misconfigured,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotReplayed,
    NotSent,
    ProfileMissing,
    QueueFull,
    RateLimited,
    ServerError,
    ServiceUnreachable,
    SpoolCorrupt,
    SpoolError,
    SpoolFull,
    SpoolInUse,
    SpoolKeyWrong,
    TenantClosed,
    TooLarge,
    Unavailable,
    UnexpectedAnswer,
    WritesRejected,
)
from ebbing_client.results import (
    Added,
    Deletion,
    Erasure,
    Event,
    Explanation,
    Hit,
    Memory,
    Recalled,
    SearchResults,
)
from ebbing_client.spool import Spool
from ebbing_client.stores import Rejected

__all__ = [
    "Added",
    "ApiError",
    "AsyncEbbing",
    "BacklogFull",
    "BadRequest",
    "Change",
    "ClientClosed",
    "Conflict",
    "CursorGone",
    "DeadlinePassed",
    "Deletion",
    "Ebbing",
    "EbbingError",
    "Erasure",
    "Event",
    "Explanation",
    "FieldProblem",
    "Hit",
    "Invalid",
    "LocalServiceError",
    "Memory",
    "Misconfigured",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "NotReplayed",
    "NotSent",
    "ProfileMissing",
    "QueueFull",
    "RateLimited",
    "Recalled",
    "Rejected",
    "SearchResults",
    "ServerError",
    "ServiceUnreachable",
    "Spool",
    "SpoolCorrupt",
    "SpoolError",
    "SpoolFull",
    "SpoolInUse",
    "SpoolKeyWrong",
    "TenantClosed",
    "TooLarge",
    "Unavailable",
    "UnexpectedAnswer",
    "WritesRejected",
]
