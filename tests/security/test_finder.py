"""Functions that run with another role's rights work only for the transaction's own tenant."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.store.core import database
from tests.store.bulk_tenants import Crowd, crowd

__all__ = ["crowd"]

MATCHING = text("""
SELECT memory_id FROM words_weighed(CAST(:wanted AS tsquery), CAST(CAST(:lexemes AS text[]) AS tsquery[]),
  CAST(:scores AS float8[]), CAST(0.6 AS float8))
""")
GIVEN: dict[str, Any] = {"wanted": "'common'", "lexemes": ["'common'"], "scores": [1.0]}


def matching(tenant: UUID | None, **given: object) -> set[UUID]:
    """Call the function in a tenant's transaction, or in one without a tenant, and return the ids."""
    with database.shared() if tenant is None else database.tenant(tenant) as tx:
        return set(tx.execute(MATCHING, GIVEN | given).scalars())


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"wanted": "!'nothing'"},
        {"wanted": "'common' | !'common'"},
        {"wanted": "'x'' OR tenant_id IS NOT NULL --' | 'common'"},
        {"wanted": "'$L' | '%s' | 'common'"},
        {"lexemes": ["'x'' THEN 1 END FROM public.memory_words --'", "'%1$L'"], "scores": [1.0, 2.0]},
        {"lexemes": [], "scores": []},
        {"scores": [float("nan")]},
        {"scores": [float("inf"), 1.0, 2.0]},
        {"lexemes": [None], "scores": [None, 1.0]},
    ],
)
def test_whatever_it_is_given_no_foreign_row_comes(crowd: Crowd, given: dict[str, object]) -> None:
    ours, theirs = crowd.tenant(30), crowd.large(1100)
    own = {row[0] for row in crowd.owner.execute("SELECT memory_id FROM memories WHERE tenant_id = %s", [ours])}
    assert matching(ours, **given) == own
    assert not matching(theirs, **given) & own
    assert matching(None, **given) == set()


@pytest.mark.parametrize("poison", ["x", "' OR true --"])
def test_a_tenant_of_another_form_is_refused(crowd: Crowd, poison: str) -> None:
    crowd.tenant(3)
    with database.shared() as tx:
        tx.execute(text("SELECT set_config('ebbing.tenant', :poison, true)"), {"poison": poison})
        with pytest.raises(DBAPIError, match="uuid"):
            tx.execute(MATCHING, GIVEN)


def test_indexes_can_be_made_and_dropped_for_the_own_tenant_alone(crowd: Crowd) -> None:
    theirs = crowd.large(1100)
    for function in ("make_graph", "drop_graph", "make_window_graph", "drop_window_graph"):
        with pytest.raises(DBAPIError), database.shared() as tx:
            tx.execute(text(f"SELECT {function}(CAST({crowd.space} AS smallint))"))
    with database.tenant(crowd.tenant(3)) as tx:
        for function in ("drop_graph", "drop_window_graph"):
            tx.execute(text(f"SELECT {function}(CAST(:space AS smallint))"), {"space": crowd.space})
    [[left]] = crowd.owner.execute(
        "SELECT count(*) FROM pg_indexes WHERE indexname LIKE %s", [f"%{theirs.hex}"]
    ).fetchall()
    assert left == 5


def test_the_finder_may_read_words_cues_and_metadata_and_nothing_else(crowd: Crowd) -> None:
    role = crowd.owner.execute(
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin FROM pg_roles "
        "WHERE rolname = 'ebbing_finder'"
    ).fetchone()
    assert role == (False, True, False, False, False)
    may = crowd.owner.execute(
        "SELECT table_name, column_name, privilege_type FROM information_schema.column_privileges "
        "WHERE grantee = 'ebbing_finder'"
    ).fetchall()
    words = {("memory_words", name, "SELECT") for name in ("tenant_id", "memory_id", "own", "words")}
    cues = {("scores", name, "SELECT") for name in ("tenant_id", "memory_id", "cue_stems")}
    metadata = {("memories", name, "SELECT") for name in ("tenant_id", "memory_id", "metadata", "deleted_at")}
    assert set(may) == words | cues | metadata
    assert not crowd.owner.execute("SELECT has_schema_privilege('ebbing_finder', 'public', 'CREATE')").fetchall()[0][0]
    members = crowd.owner.execute(
        "SELECT 1 FROM pg_auth_members WHERE roleid = 'ebbing_finder'::regrole "
        "AND member::regrole::text IN ('ebbing_app', 'ebbing_drain', 'ebbing_ops', 'ebbing_owner')"
    ).fetchall()
    assert members == []


def test_who_runs_what_with_whose_rights(crowd: Crowd) -> None:
    rows = crowd.owner.execute(
        "SELECT proname, proowner::regrole::text, proconfig[1] ~ '^search_path=pg_catalog, (public, )?pg_temp$', "
        "ARRAY(SELECT grantee::regrole::text FROM aclexplode(proacl) WHERE grantee <> proowner) "
        "FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace ORDER BY 1"
    ).fetchall()
    assert rows == [
        ("cues_held", "ebbing_finder", True, ["ebbing_app"]),
        ("delete_holds_of_tenant", "ebbing_owner", True, ["ebbing_app"]),
        ("drop_graph", "ebbing_owner", True, ["ebbing_app"]),
        ("drop_window_graph", "ebbing_owner", True, ["ebbing_app"]),
        ("make_graph", "ebbing_owner", True, ["ebbing_app"]),
        ("make_window_graph", "ebbing_owner", True, ["ebbing_app"]),
        ("metadata_matches", "ebbing_finder", True, ["ebbing_app"]),
        ("words_matching", "ebbing_finder", True, ["ebbing_app"]),
        ("words_weighed", "ebbing_finder", True, ["ebbing_app"]),
    ]
