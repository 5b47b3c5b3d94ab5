"""Write ops/schema.md, the reference of every table, from a database: `python -m ops.checks.schema_page URL`."""

from __future__ import annotations

import sys
from itertools import groupby

import psycopg

from ops.checks.writing import ROOT, write

PAGE = ROOT / "ops" / "schema.md"

HEAD = """# Tables

<!-- written by `python -m ops.checks.schema_page URL` from a migrated database; a test fails if it is outdated -->

Every table with its columns (type, default) and its indexes, as the migrations create them. An asterisk marks
columns that may be null.
"""

COLUMNS = """
SELECT attrelid::regclass::text, attname, format_type(atttypid, atttypmod),
  CASE WHEN attidentity = '' THEN pg_get_expr(adbin, adrelid) ELSE 'identity' END, attnotnull
FROM pg_attribute JOIN pg_class AS the_table ON the_table.oid = attrelid
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relkind = 'r' AND relnamespace::regnamespace::text LIKE ANY ('{public,ebbing\\_%}')
  AND relname <> 'alembic_version' AND attnum > 0 AND NOT attisdropped
ORDER BY attrelid::regclass::text COLLATE "C", attnum
"""
INDEXES = """
SELECT indrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
JOIN pg_class AS the_table ON the_table.oid = indrelid
WHERE relnamespace::regnamespace::text LIKE ANY ('{public,ebbing\\_%}') AND relname <> 'alembic_version'
ORDER BY indrelid::regclass::text COLLATE "C", indexrelid::regclass::text COLLATE "C"
"""


def page(database_url: str) -> str:
    """Return the whole page, one section per table in alphabetical order."""
    with psycopg.connect(database_url) as connection:
        columns = connection.execute(COLUMNS).fetchall()
        indexes = connection.execute(INDEXES).fetchall()
    sections = []
    for table, rows in groupby(columns, key=lambda row: row[0]):
        listed = [_column(name, kind, default, is_needed=needed) for _, name, kind, default, needed in rows]
        listed += [_index(definition) for owner, definition in indexes if owner == table]
        sections.append(f"\n## {table}\n\n" + "".join(f"- {line}\n" for line in listed))
    return HEAD + "".join(sections)


def _column(name: str, kind: str, default: str | None, *, is_needed: bool) -> str:
    return f"`{name}`{'' if is_needed else '*'} {kind}" + (f", `{default}`" if default else "")


def _index(definition: str) -> str:
    """Return an index without its table's name, such as "unique index `name`: `btree (a, b) WHERE …`"."""
    head, _, rest = definition.partition(" USING ")
    words = head.removeprefix("CREATE ").split()
    is_unique = words[0] == "UNIQUE"
    return f"{'unique ' * is_unique}index `{words[2 if is_unique else 1]}`: `{rest}`"


if __name__ == "__main__":
    write(PAGE, page(sys.argv[1]))
