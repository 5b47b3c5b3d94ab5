"""`POST /v1/maintenance/reembed`: its counts, the jobs it creates, and the scope it requires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.services.embedding import reembed
from app.services.jobs import queue
from tests.api.caller import Api, fields
from tests.provider.server import provider
from tests.service import Tenant
from tests.services.embedder_move import REMOTE, forget

PATH = "/v1/maintenance/reembed"


class Jobs:
    """Stub of `queue` that records the jobs created."""

    def __init__(self) -> None:
        self.made: list[tuple[UUID, str, dict[str, Any], bool]] = []
        self.ids: list[UUID] = []

    def create(self, tenant_id: UUID, kind: str, parameters: dict[str, Any], *, lone: bool, actor: str) -> UUID:
        assert actor.isalnum()  # the id of the caller's key
        self.made.append((tenant_id, kind, parameters, lone))
        self.ids.append(uuid4())
        return self.ids[-1]


@pytest.fixture
def made(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """Three memories of the caller and one of another tenant, in an embedding space that is no longer configured."""
    stand_in = Jobs()
    monkeypatch.setattr(queue, "create", stand_in.create)
    api.remember("one", "two", "three")
    api.remember("four", key=other(api).key)
    with provider() as fake:
        api.service.configure(
            embedder="openai", embedding_model="embed-small", embedding_dimensions=64, openai_base_url=fake.url
        )
        forget()
        yield stand_in
        forget()


def other(api: Api) -> Tenant:
    return api.admin


def space_id(api: Api) -> int:
    found: int = api.service.one("SELECT space_id FROM embedding_spaces WHERE model = %s", REMOTE[0])
    return found


def test_it_answers_the_job(api: Api, made: Jobs) -> None:
    for _ in range(2):
        answer = api.post(PATH, json={})
        assert (answer.status_code, answer.json()) == (202, {"job_id": str(made.ids[-1])})
    assert made.made == [(api.tenant.tenant_id, reembed.KIND, {"space_id": space_id(api)}, True)] * 2


def test_a_dry_run_counts_and_changes_nothing(api: Api, made: Jobs) -> None:
    answer = api.post(PATH, json={"dry_run": True})
    assert answer.status_code == 200
    assert answer.json() == {"changes": [], "counts": {"memories": 3, "tenants": 1}, "next_cursor": None}
    answer = api.post(PATH, json={"dry_run": True, "every_tenant": True}, key=api.admin.key)
    assert answer.json()["counts"] == {"memories": 4, "tenants": 2}
    assert made.made == []
    assert api.service.one("SELECT count(*) FROM tenant_spaces WHERE target_space_id IS NOT NULL") == 0


def test_every_tenant_that_is_elsewhere_gets_a_job(api: Api, made: Jobs) -> None:
    api.service.tenant()  # has nothing to re-embed
    answer = api.post(PATH, json={"every_tenant": True}, key=api.admin.key)
    assert (answer.status_code, answer.json()) == (202, {"job_ids": [str(job_id) for job_id in made.ids]})
    assert {tenant for tenant, *_ in made.made} == {api.tenant.tenant_id, api.admin.tenant_id}


def test_only_an_admin_may_move_others(api: Api, made: Jobs) -> None:
    for dry_run in (False, True):
        answer = api.post(PATH, json={"every_tenant": True, "dry_run": dry_run})
        assert answer.status_code == 403
        fields(answer)
    assert made.made == []


def test_a_field_that_is_not_known_is_named(api: Api, made: Jobs) -> None:
    answer = api.post(PATH, json={"tenant": "all"})
    assert answer.status_code == 422
    assert fields(answer) == ["tenant"]


def test_the_door_wants_vectors_of_the_tenants_size(api: Api, made: Jobs) -> None:
    """The tenant still uses its old embedding space, whatever the settings say."""
    assert api.post("/v1/memories", json={"text": "x", "embedding": [1.0] * 256}).status_code == 202
    answer = api.post("/v1/memories", json=[{"text": "x"}, {"text": "y", "embedding": [1.0] * 64}])
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert (error["field"], error["value"], error["limit"]) == ("[1].embedding", 64, 256)
