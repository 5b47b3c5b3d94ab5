"""Write ops/pictures/architecture.svg, the path of a memory through the service, lane by lane (`make docs`)."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from app.queues import LANES
from ops.checks.writing import ROOT, write

PICTURE: Final = ROOT / "ops" / "pictures" / "architecture.svg"
WIDTH: Final = 1000
HEIGHT: Final = 490
LINE: Final = 17

# The colours are light, or dark if the reader's system prefers dark.
STYLE: Final = """
  svg { font: 13px system-ui, sans-serif; background: #ffffff; }
  text { fill: #24292f; } .title { font-weight: 600; font-size: 14px; } .note { fill: #57606a; font-size: 12px; }
  rect { fill: #f6f8fa; stroke: #8c959f; rx: 8px; } .store rect { fill: #ddf4ff; stroke: #54aeff; }
  .lane rect { fill: #dafbe1; stroke: #4ac26b; } .outside rect { stroke-dasharray: 5 4; }
  path { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#tip); }
  marker path { fill: #57606a; marker-end: none; }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117; } text { fill: #e6edf3; } .note { fill: #9198a1; }
    rect { fill: #161b22; stroke: #656c76; } .store rect { fill: #0c2d6b; stroke: #388bfd; }
    .lane rect { fill: #0f3d1f; stroke: #2ea043; } path { stroke: #9198a1; } marker path { fill: #9198a1; }
  }
"""
LABEL: Final = (
    "An application posts memories to the API, which answers 202 after one call to Redis. Workers, one process per "
    "lane, move them to PostgreSQL, and call a model provider and cold storage. Searches go from the API "
    "to PostgreSQL."
)
DEFINITIONS: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
)
# The tasks of each lane; an unlisted lane is drawn with only its name.
DOES: Final[dict[str, tuple[str, ...]]] = {
    "ingest": ("store, index words,", "reinforce"),
    "embed": ("vectors",),
    "score": ("salience: rules,", "then a model"),
    "maintain": ("nightly: merge,", "archive, delete"),
    "rights": ("erasures, exports,", "restores"),
}


def picture() -> str:
    """Return the content of the file."""
    lanes = list(LANES)
    width = (WIDTH - 40 - 16 * len(lanes)) // (len(lanes) + 1)
    left = [20 + place * (width + 16) for place in range(len(lanes) + 1)]
    boxes = [
        _box(20, 40, 150, "Application", "POST /v1/memories", "POST /v1/search", kind="outside"),
        _box(20, 150, 150, "Operator", "CLI, /ops, Prometheus", kind="outside"),
        _box(250, 70, 190, "API", "keys, limits, checks", "one Lua call per ingest,", "then 202"),
        _box(
            520,
            40,
            200,
            "Redis",
            "a stream per tenant, their",
            "turns, messages, counters;",
            "append-only file",
            kind="store",
        ),
        _box(
            790,
            40,
            190,
            "PostgreSQL",
            "memories, states, words,",
            "vectors, schedules, audit;",
            "row-level security",
            "keys, erasure ledger",
            kind="store",
        ),
        *(_box(x, 270, width, name, *DOES.get(name, ()), kind="lane") for x, name in zip(left, lanes, strict=False)),
        _box(left[-1], 270, width, "beat", "sends triggers"),
        _box(250, 410, 230, "Model provider", "optional: ratings, vectors,", "summaries", kind="outside"),
        _box(560, 410, 230, "Cold storage", "folder or bucket; encrypted", "with keys in PostgreSQL", kind="store"),
    ]
    arrows = [
        _arrow(f"M170 75 H210 V100 H{250 - 4}"),
        _arrow(f"M170 180 H210 V130 H{250 - 4}"),
        _arrow(f"M440 95 H{520 - 4}", "entries", 479, 86),
        _arrow(f"M345 70 V20 H885 V{40 - 4}", "search, recall, other calls", 615, 14),
        _arrow("M620 128 V210", "stored exactly once", 628, 172, anchor="start"),
        _arrow("M885 215 V149"),
        _arrow(f"M365 340 V{410 - 4}"),
        _arrow(f"M675 340 V{410 - 4}"),
    ]
    frame = (
        '<g class="outside"><rect x="10" y="215" width="980" height="125" fill-opacity="0.35"/></g>'
        '<text class="title" x="24" y="240">Workers: one process per lane</text>'
        '<text class="note" x="24" y="258">'
        "a message only wakes a worker; the stream entry, then the row, is authoritative</text>"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{LABEL}">',
            f"<style>{STYLE}</style>",
            DEFINITIONS,
            frame,
            *arrows,
            *boxes,
            "</svg>\n",
        ]
    )


def _box(x: int, y: int, width: int, title: str, *lines: str, kind: str = "") -> str:
    height = 32 + LINE * len(lines)
    texts = "".join(
        f'<text class="note" x="{x + 12}" y="{y + 40 + LINE * place}">{escape(line)}</text>'
        for place, line in enumerate(lines)
    )
    return (
        f'<g class="{kind}"><rect x="{x}" y="{y}" width="{width}" height="{height}"/>'
        f'<text class="title" x="{x + 12}" y="{y + 21}">{escape(title)}</text>{texts}</g>'
    )


def _arrow(path: str, text: str = "", x: int = 0, y: int = 0, *, anchor: str = "middle") -> str:
    label = f'<text class="note" text-anchor="{anchor}" x="{x}" y="{y}">{escape(text)}</text>' if text else ""
    return f'<path d="{path}"/>{label}'


if __name__ == "__main__":
    write(PICTURE, picture())
