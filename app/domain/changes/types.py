"""Types of changes in the feed, with one line of meaning each; routes, documents and webhooks read them from here."""

from __future__ import annotations

from typing import Final

STORED: Final = "memory.stored"
SCORED: Final = "memory.scored"
UPDATED: Final = "memory.updated"
MOVED: Final = "memory.moved"
MERGED: Final = "memory.merged"
SUPERSEDED: Final = "memory.superseded"
DELETED: Final = "memory.deleted"
RESTORED: Final = "memory.restored"
ERASURE_REQUESTED: Final = "erasure.requested"
ERASURE_CANCELLED: Final = "erasure.cancelled"
ERASURE_COMPLETED: Final = "erasure.completed"
NIGHT_FINISHED: Final = "night.finished"
DEAD_LETTER_CREATED: Final = "dead_letter.created"
SELF_TEST_FAILED: Final = "self_test.failed"
EXPORT_READY: Final = "export.ready"

MEANINGS: Final = {
    STORED: "A memory was stored: sent, imported, or written as a summary. `id` is the memory.",
    SCORED: "A memory's salience was computed, by rules or by a model.",
    UPDATED: "A memory's text, labels or other fields changed.",
    MOVED: "A memory moved to a lower tier, `archived` or `cold`.",
    MERGED: "A memory was archived because a summary now stands for it.",
    SUPERSEDED: "A newer memory took a memory's place.",
    DELETED: "A memory was deleted, or hidden by an erasure or a quarantine: the API no longer returns it.",
    RESTORED: "A memory is active or visible again: after a use, an edit, a restore, an undone merge or supersession, "
    "a cancelled erasure, or a lifted quarantine.",
    ERASURE_REQUESTED: "A deletion or an erasure was requested. `id` is the erasure.",
    ERASURE_CANCELLED: "An erasure was cancelled within its grace period.",
    ERASURE_COMPLETED: "An erasure deleted its data from every store and verified the result.",
    NIGHT_FINISHED: "Nightly maintenance finished. `id` is the job.",
    DEAD_LETTER_CREATED: "An accepted entry could not be processed and needs a decision. `id` is the dead letter.",
    SELF_TEST_FAILED: "A self-test found that a memory isn't retrieved. `id` is the run.",
    EXPORT_READY: "An export can be downloaded. `id` is the export.",
}
TYPES: Final = tuple(MEANINGS)
