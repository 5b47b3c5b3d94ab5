"""Objects of the caller's tenant that paths of routes name."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.domain.imports.items import ImportOptions
from app.domain.jobs import Step
from app.domain.policy import api_keys
from app.domain.privacy.export import NewExport
from app.domain.webhooks.endpoint import NewWebhook
from app.services.ingest import import_requests
from app.services.jobs import queue, runner
from app.services.privacy import export_requests
from app.services.tenants import tenants
from app.services.webhooks import webhooks
from app.settings import settings
from tests.api.caller import Api
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
