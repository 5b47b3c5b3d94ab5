"""Kinds of maintenance that callers can start: the table behind the routes and the commands of `ebbing maintain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_CHANGES: Final = "a page of changes, with counts for this page"


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A kind of maintenance: its texts, and the parameters in addition to `dry_run` and `as_of`.

    Attributes:
        summary: Title of the route.
        description: Description of the route.
        help: Help text of the command.
        examples: Arguments of the command, one string for each example.
        answer: Content of the response to a dry run.
        parameters: Names of the additional fields of the request.
        deletes: The command asks for confirmation before it starts the job.
        dry_run: Help text of the option `--dry-run`.
    """

    summary: str
    description: str
    help: str
    examples: tuple[str, ...]
    answer: str = _CHANGES
    parameters: tuple[str, ...] = ("limit", "cursor")
    deletes: bool = False
    dry_run: str = "List the changes and their reasons without applying them."


KINDS: Final[dict[str, Maintenance]] = {
    "sweep": Maintenance(
        "Assign tiers by strength",
        "Start a job that evaluates each due memory and records the tier it should be in, without moving it.",
        "Record the target tier of each memory due for evaluation, without moving the memory (also runs nightly).",
        ("", "--wait --json", "--dry-run --as-of 2030-01-01T00:00:00Z"),
    ),
    "rebase": Maintenance(
        "Migrate memories to the current policy",
        "Start a job that migrates memories still under an older policy. Their current strength doesn't change.",
        "Migrate memories to the current policy if they still decay under an older one (also runs nightly after a "
        "change).\n\nCurrent and past strengths don't change.",
        ("--dry-run", "--wait"),
    ),
    "promote": Maintenance(
        "Promote memories",
        "Start a job that promotes used memories which meet the policy's criteria. Uses and reviews promote at once; "
        "the job finds memories that meet the criteria after a change of the policy. Memories that were demoted are "
        "left out.",
        "Promote used memories that meet the policy's criteria (also runs nightly). Undo with `ebbing demote`.",
        ("--dry-run", "--wait"),
        answer="a page of memories with tier, reason and numbers, and counts for this page",
        dry_run="List the memories that would be promoted, without promoting them.",
    ),
    "archive": Maintenance(
        "Move to the archive",
        "Start a job that sweeps and moves faded memories to the archive; a use reactivates them.",
        "Sweep, then move faded memories to the archive (also runs nightly). A use reactivates an archived memory.",
        ("--wait", "--dry-run --as-of 2030-01-01T00:00:00Z"),
    ),
    "cold": Maintenance(
        "Move to cold storage",
        "Start a job that sweeps and moves strongly faded memories to cold storage; `restore` reactivates them.",
        "Sweep, then move strongly faded memories to cold storage (also runs nightly). Undo with `ebbing restore`.",
        ("--dry-run", "--wait"),
    ),
    "delete": Maintenance(
        "Permanently delete forgotten memories",
        "Start a job that deletes memories in cold storage that meet all of the policy's deletion conditions. It can't "
        "be undone.",
        "Permanently delete memories in cold storage that meet all of the policy's deletion conditions (also runs "
        "nightly).",
        ("--dry-run", "--wait --yes"),
        deletes=True,
    ),
    "expire": Maintenance(
        "Delete memories past their retention period",
        "Start a job that sweeps and deletes memories whose retention period has expired, in any tier. It can't be "
        "undone.\n\nA dry run also lists, as `summaries`, the summaries that would be deleted or regenerated.",
        "Permanently delete memories whose retention period has expired (also runs nightly).",
        ("--dry-run", "--wait --yes"),
        deletes=True,
    ),
    "notes": Maintenance(
        "Write notes of promoted memories",
        "Start a job that writes notes of promoted memories below the operator's folder, updates notes that differ, "
        "and removes the notes of other memories. An edited note is counted and not overwritten.",
        "Write, update and remove the notes of promoted memories in a subfolder of EBBING_NOTES_DIR (also runs "
        "nightly).\n\nNotes that were edited by hand are listed, but not overwritten.",
        ("--dry-run", "--wait"),
        answer="a page of notes with their state and what would happen, and counts for this page",
        dry_run="List the notes that would be written or removed, and the edited notes.",
    ),
    "selftest": Maintenance(
        "Run self-tests",
        "Start a job that tests retrieval on a sample of memories, even if no weekly run is due.\n\n"
        "Memories that pass are reinforced, which doesn't count as a use; memories that fail are flagged for review. "
        "A dry\nrun lists the memories by kind; `from` is the start of a tested link.",
        "Test retrieval on a sample of memories (also runs weekly); `ebbing stats` shows the results.\n\n"
        "A self-test of the kind `connection` (a linked memory is found), `application` (a question in the memory's "
        "own words finds it) or `coherence` (a summary has the key points of its sources) reinforces the memory if it "
        "passes, and flags it for review if it fails (`ebbing reviews --flagged`). The kinds `other_words`, `recall` "
        "(both with paraphrased questions) and `retrieval_speed` only measure.",
        ("--wait", "--dry-run"),
        answer="the memories that would be tested",
        parameters=(),
        dry_run="List the memories that would be tested, without running the tests.",
    ),
    "consolidate": Maintenance(
        "Consolidate memories",
        "Start a job that compares new memories with all others: small groups are linked, larger ones summarised.\n\n"
        "Excluded are important memories, memories marked never to be forgotten or under a legal hold, those of the "
        "last\ndays, and one memory of each day.",
        "Link or merge related memories (also runs nightly). List and undo merges with `ebbing consolidation`.",
        ("--dry-run", "--level light --wait"),
        answer="the groups, the planned action of each, and an example text",
        parameters=("level", "limit"),
    ),
}
