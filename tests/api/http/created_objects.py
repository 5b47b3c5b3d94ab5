"""Objects of the caller's tenant that paths of routes name."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from app.domain.consolidation.supersession import SupersessionPair
from app.domain.imports.items import ImportOptions
from app.domain.ingest.quarantine import NewQuarantine
from app.domain.jobs import Step
from app.domain.policy import api_keys
from app.domain.privacy.export import NewExport
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.requests import Extension, NewRequest
from app.domain.webhooks.endpoint import NewWebhook
from app.services.consolidation import supersession
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.ingest import drain, import_requests
from app.services.jobs import queue, runner, schedule
from app.services.privacy import export_requests, legal_holds, quarantines, request_log
from app.services.tenants import tenants
from app.services.webhooks import webhooks
from app.settings import settings
from app.store.core import database
from tests.api.caller import Api
from tests.api.http.route_table import LINKED
from tests.services.job_kinds import set_kind

MOST_WEBHOOKS = 20


def a_key(api: Api) -> str:
    read = api_keys.parse(tenants.issue_key(api.tenant.tenant_id, "another"))
    assert read is not None
    return read.key_id


def a_job(api: Api) -> UUID:
    with pytest.MonkeyPatch.context() as patched:
        set_kind(patched, "test", lambda job: Step(0, job.state, finished=True))
        return queue.create(api.tenant.tenant_id, "test", {})


def an_export(api: Api) -> UUID:
    made = export_requests.request_export(api.tenant.tenant_id, NewExport("ann"), "y")
    api.service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", made.job_id)
    runner.run_slice(made.job_id)
    return made.export_id


def an_import(api: Api) -> UUID:
    api.service.rows("UPDATE imports SET status = 'done'")  # a tenant may have ten that are unfinished
    file = import_requests.begin_upload(api.tenant.tenant_id, "jsonl", ImportOptions())
    file.write(b"{}")
    return import_requests.finish_upload(file, "jsonl", "key", dry_run=False).import_id


def a_webhook(api: Api) -> UUID:
    found = api.service.rows("SELECT webhook_id FROM webhooks WHERE tenant_id = %s", api.tenant.tenant_id)
    if len(found) >= MOST_WEBHOOKS:  # of the 50 that a tenant may have; fuzzed requests create some
        return UUID(str(found[0][0]))
    api.service.configure(webhook_hosts="127.0.0.1")
    if not settings().master_key:
        api.service.configure(master_key="a master key of the required length")
    return webhooks.create(api.tenant.tenant_id, NewWebhook("http://127.0.0.1:9/hook"), "y").webhook.webhook_id


def name_two(api: Api) -> None:
    statement = "INSERT INTO memory_aliases (tenant_id, alias_id, memory_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
    for alias_id, memory_id in zip(LINKED, api.remember("one", "another"), strict=True):
        api.service.rows(statement, api.tenant.tenant_id, alias_id, memory_id)


def a_schedule(_: Api) -> str:
    schedule.insert_due_runs(["night"])
    return "night"


def a_letter(api: Api) -> UUID:
    api.service.post(api.tenant.tenant_id, b"no JSON")
    drain.drain_streams()
    letter_id: UUID = api.service.one("SELECT letter_id FROM dead_letters ORDER BY created_at DESC LIMIT 1")
    return letter_id


def a_proposal(api: Api) -> UUID:
    newer, older = map(UUID, api.remember("newer", "older"))
    with database.tenant(api.tenant.tenant_id) as tx:
        supersession.propose_pairs(tx, api.tenant.tenant_id, [SupersessionPair(newer, older)], approved=[])
    [proposed] = supersession.list_supersessions(api.tenant.tenant_id, "proposed", newer, None, 1)
    return proposed.supersession_id


def a_hold(api: Api) -> UUID:
    return legal_holds.place_hold(api.tenant.tenant_id, Scope(subject="ann"), "x", "y").hold_id


def a_quarantine(api: Api) -> UUID:
    wanted = NewQuarantine(source="tool", confirm=True)
    return quarantines.place(api.tenant.tenant_id, wanted, "y").quarantine_id


def an_erasure(api: Api) -> UUID:
    made = requests.request(api.tenant.tenant_id, ErasureOptions(Scope(subject="ann")), "y").erasure_id
    report = {"memories": 0, "kept": [], "elsewhere": [], "stores": [], "left": {}}  # as if it were finished
    api.service.rows("UPDATE erasures SET report = %s::jsonb", json.dumps(report))
    return made


def a_merge(api: Api, status: str) -> UUID:
    merge_id: UUID = api.service.one(
        "INSERT INTO merges (tenant_id, merge_id, run_id, action, status, level, cohesion, sources, created_at) "
        "VALUES (%s, gen_random_uuid(), gen_random_uuid(), %s, %s, 'medium', 0.8, 2, now()) RETURNING merge_id",
        api.tenant.tenant_id,
        "link" if status == "done" else "duplicates",
        status,
    )
    for memory_id in api.remember("one", "another"):
        api.service.rows(
            "INSERT INTO lineage (tenant_id, merge_id, memory_id, text_version, part) VALUES (%s, %s, %s, 1, 'source')",
            api.tenant.tenant_id,
            merge_id,
            memory_id,
        )
    return merge_id


def a_request(api: Api) -> UUID:
    return request_log.create(api.tenant.tenant_id, NewRequest("correction", "gdpr")).request_id


def an_extended_request(api: Api) -> UUID:
    request_id = a_request(api)
    request_log.extend(api.tenant.tenant_id, request_id, Extension("many requests"), "key")
    return request_id


def a_held_erasure(api: Api) -> UUID:
    erasure_id = an_erasure(api)
    api.service.rows("UPDATE erasures SET status = 'held' WHERE erasure_id = %s", erasure_id)
    return erasure_id
