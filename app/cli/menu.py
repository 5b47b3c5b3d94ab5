"""Menu of `ebbing --help`: each command with its panel, a one-line summary, and the modules to import for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EVERYDAY: Final = "Everyday"
INSPECT: Final = "Inspect and correct"
PEOPLE: Final = "People and privacy"
OPERATE: Final = "Operate"


@dataclass(frozen=True)
class MenuEntry:
    """A command or group in the menu.

    Attributes:
        panel: Heading under which `ebbing --help` lists it.
        summary: Description in one line.
        modules: Modules to import, below `app.cli`; the first one has the router.
    """

    panel: str
    summary: str
    modules: tuple[str, ...]


MENU: Final = {
    "run": MenuEntry(EVERYDAY, "Run the complete service on this machine.", ("service.run",)),
    "demo": MenuEntry(EVERYDAY, "Show what Ebbing does, with a temporary service.", ("demo.demo",)),
    "ingest": MenuEntry(EVERYDAY, "Send memories from files.", ("memories.ingest",)),
    "import": MenuEntry(EVERYDAY, "Import memories from other products and from exports.", ("memories.imports",)),
    "search": MenuEntry(EVERYDAY, "Search memories by words and by meaning.", ("memories.search",)),
    "recall": MenuEntry(EVERYDAY, "Print relevant memories as text for your prompt.", ("memories.recall",)),
    "observe": MenuEntry(EVERYDAY, "Mark memories as used, which strengthens them.", ("memories.touch",)),
    "touch": MenuEntry(EVERYDAY, "Strengthen one memory now.", ("memories.touch",)),
    "mcp": MenuEntry(EVERYDAY, "Serve agents over the Model Context Protocol.", ("service.mcp",)),
    "stats": MenuEntry(EVERYDAY, "Show counts and queue sizes of your tenant.", ("memories.stats",)),
    "doctor": MenuEntry(EVERYDAY, "Check the service and suggest fixes.", ("service.doctor",)),
    "why": MenuEntry(INSPECT, "Explain the tier of a memory.", ("memories.why",)),
    "history": MenuEntry(INSPECT, "Show the events of a memory.", ("memories.reviews",)),
    "links": MenuEntry(INSPECT, "List, add and remove links between memories.", ("memories.links",)),
    "threads": MenuEntry(INSPECT, "List threads, or the memories of a thread in order.", ("memories.threads",)),
    "changes": MenuEntry(INSPECT, "List or follow what changed, in order.", ("memories.changes",)),
    "supersede": MenuEntry(INSPECT, "Replace outdated memories; decide on proposals.", ("memories.supersessions",)),
    "reviews": MenuEntry(INSPECT, "List memories that are due for review.", ("memories.reviews",)),
    "review": MenuEntry(INSPECT, "Record the result of a review.", ("memories.reviews",)),
    "restore": MenuEntry(INSPECT, "Restore archived and cold memories.", ("memories.restore",)),
    "promote": MenuEntry(
        INSPECT,
        "Promote a memory: mark it as worth keeping.",
        ("memories.promotion",),
    ),
    "demote": MenuEntry(INSPECT, "Demote a promoted memory.", ("memories.promotion",)),
    "notes": MenuEntry(INSPECT, "Copy promoted memories to a folder as Markdown notes.", ("memories.notes",)),
    "curve": MenuEntry(INSPECT, "Draw how strength decays over time.", ("maintenance.curve",)),
    "forecast": MenuEntry(INSPECT, "Predict the number of memories per tier.", ("maintenance.forecast",)),
    "replay": MenuEntry(INSPECT, "Replay recorded searches under another policy.", ("memories.replay",)),
    "simulate": MenuEntry(INSPECT, "Simulate a year of use in about a minute.", ("demo.simulate",)),
    "usage": MenuEntry(INSPECT, "Show model usage, costs and budget.", ("maintenance.usage",)),
    "erase": MenuEntry(PEOPLE, "Erase a person's memories, or selected ones.", ("privacy.erase",)),
    "export": MenuEntry(PEOPLE, "Export a person's data to a zip file.", ("privacy.export",)),
    "dump": MenuEntry(PEOPLE, "Save the whole tenant to a file, to move it.", ("privacy.dump",)),
    "load": MenuEntry(PEOPLE, "Load a dump of a tenant.", ("privacy.dump",)),
    "quarantine": MenuEntry(PEOPLE, "Hide what a key or source wrote; show it again.", ("privacy.quarantines",)),
    "hold": MenuEntry(PEOPLE, "Place, list and release legal holds.", ("privacy.holds",)),
    "privacy": MenuEntry(
        PEOPLE,
        "Follow erasures and answer privacy requests.",
        (
            "privacy.erasure_requests",
            "privacy.restore_replay",
            "privacy.request_log",
            "privacy.request_answers",
            "privacy.request_details",
            "privacy.subjects",
        ),
    ),
    "audit": MenuEntry(PEOPLE, "List and verify the audit log.", ("privacy.audit",)),
    "policy": MenuEntry(OPERATE, "Show, preview and change the tenant's policy.", ("maintenance.policy",)),
    "schedule": MenuEntry(OPERATE, "List, run, pause and resume scheduled runs.", ("maintenance.schedule",)),
    "maintain": MenuEntry(OPERATE, "Run one maintenance task now.", ("maintenance.maintain",)),
    "consolidation": MenuEntry(OPERATE, "List, approve and undo merges.", ("maintenance.consolidation",)),
    "jobs": MenuEntry(OPERATE, "List, watch and cancel background jobs.", ("maintenance.jobs",)),
    "webhooks": MenuEntry(OPERATE, "Send changes to receivers; list and replay deliveries.", ("maintenance.webhooks",)),
    "dead-letters": MenuEntry(OPERATE, "List, replay and discard failed work.", ("maintenance.dead_letters",)),
    "queue": MenuEntry(OPERATE, "Check the Redis that holds the queue; list lost requests.", ("service.queue",)),
    "reembed": MenuEntry(OPERATE, "Move to the configured embedding model.", ("maintenance.reembed",)),
    "tenants": MenuEntry(
        OPERATE, "Create, list and delete tenants.", ("service.tenants_and_keys", "service.tenant_deletion")
    ),
    "keys": MenuEntry(
        OPERATE, "Create, list and revoke API keys.", ("service.tenants_and_keys", "service.tenant_deletion")
    ),
    "master-key": MenuEntry(OPERATE, "Show and rotate the master key of cold storage.", ("service.master_key",)),
    "migrate": MenuEntry(OPERATE, "Migrate the database to this version's schema.", ("service.processes",)),
    "api": MenuEntry(OPERATE, "Start the HTTP API alone.", ("service.processes",)),
    "worker": MenuEntry(OPERATE, "Start a worker for one queue (lane).", ("service.processes",)),
    "beat": MenuEntry(OPERATE, "Start the scheduler (more than one is safe).", ("service.processes",)),
}
"""Commands in the order of the menu."""

INTENTIONS: Final = {
    "run": ("start", "serve", "server", "up"),
    "ingest": ("add", "store", "remember", "insert", "send", "write", "put"),
    "import": ("migrate-from",),
    "dump": ("backup",),
    "search": ("find", "query", "ask", "list", "get", "show"),
    "recall": ("context", "retrieve"),
    "observe": ("use", "used", "mark", "reinforce"),
    "stats": ("count", "counts", "info", "metrics"),
    "doctor": ("status", "health", "check", "ping"),
    "why": ("explain",),
    "erase": ("delete", "remove", "forget", "rm", "purge"),
    "export": ("download",),
    "privacy": ("gdpr", "ccpa", "erasures", "requests"),
    "policy": ("config", "settings"),
    "dead-letters": ("letters", "failed", "errors"),
    "usage": ("costs", "cost", "budget", "money", "tokens"),
    "tenants": ("customers",),
}
"""Words that users type in place of a command's name, by command; the error message proposes the command."""
OPTION_INTENTIONS: Final = {
    "--limit": ("--top-k", "--topk", "--top", "--k", "--max", "--count", "--num", "--size"),
    "--subject": ("--user", "--user-id", "--person"),
    "--thread": ("--conversation", "--chat", "--session-id"),
    "--after": ("--since", "--from", "--start"),
    "--before": ("--until", "--to", "--end"),
    "--json": ("--format", "--output", "--as-json"),
    "--yes": ("--force", "--assume-yes"),
    "--dry-run": ("--preview", "--simulate", "--check"),
}
"""Unknown options that users type, by the option that they mean; it is proposed if the command has it."""
