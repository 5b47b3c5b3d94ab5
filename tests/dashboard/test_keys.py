"""The keys page: the shown tenant's keys with their source, page by page, for admins; never a secret."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from app.dashboard.pages import keys
from app.services.tenants import tenants
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, cookie_of, said

Visit = Callable[..., Visitor]


def test_keys_are_shown_with_their_source_and_without_secrets(api: Api, visit: Visit) -> None:
    text = tenants.issue_key(api.tenant.tenant_id, "left \u202e <b>right</b>", ["ingest", "read"], source="tool")
    tenants.revoke_key(text[4:17])
    other, foreign = tenants.create("other")
    admin = visit("admin")
    html = admin.page("/keys")
    row = said(next(part for part in html.split("<tr>") if text[4:17] in part))
    assert re.search(r"left ⟨U\+202E⟩ <b>right</b>.*tool.*ingest, read.*never.*revoked", row, re.DOTALL)
    assert "<b>right" not in html
    assert text not in html
    assert text[18:] not in html
    assert foreign[4:17] not in html
    admin.cookie = cookie_of(admin.send("/tenant", {"tenant": str(other.tenant_id)}))
    html = admin.page("/keys")
    assert (foreign[4:17] in html, text[4:17] in html) == (True, False)


def test_all_keys_are_reached_page_by_page(api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "PAGE", 2)
    admin = visit("admin")
    made = [tenants.issue_key(api.tenant.tenant_id, f"key {number}")[4:17] for number in range(4)]
    place, seen = "/keys", []
    while place:
        html = admin.page(place)
        seen += [key_id for key_id in re.findall(r"<small><code>(\w+)</code>", html) if key_id in made]
        older = re.search(r'href="/ops(/keys\?cursor=[^"]+)">Older', html)
        place = older[1] if older else ""
    assert sorted(seen) == sorted(made)


def test_keys_are_an_admins_to_see(visit: Visit) -> None:
    assert visit().get("/keys").status_code == 403
    assert "/ops/keys" not in visit().page("/")
