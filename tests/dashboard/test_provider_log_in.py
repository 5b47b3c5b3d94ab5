"""Log-in through an OpenID Connect provider: the flow between browser, service and provider, and its failures."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import httpx
import pytest

from app.clients import oidc_provider as client
from app.dashboard import rendering, sessions
from app.dashboard.access import LOOKS, Viewer
from app.dashboard.pages import overview
from app.dashboard.sessions import ATTEMPT_COOKIE, COOKIE
from app.services.monitoring import doctor
from app.services.security import operator_log, operators
from app.services.tenants import tenants
from tests.api.caller import Api
from tests.dashboard import visitor as keys
from tests.dashboard.oidc import (
    CALLBACK,
    START,
    FakeOidc,
    begin,
    cookie,
    ec_key,
    finish,
    log_in,
    rsa_key,
)
from tests.dashboard.visitor import Visitor, said
from tests.services.due_deletions import worked

DISCOVERY = "/.well-known/openid-configuration"


def enter(api: Api, fake: FakeOidc) -> Visitor:
    """Log in, and return the visitor with the session's cookie."""
    answer = log_in(api, fake)
    assert answer.status_code == 200, answer.text
    return Visitor.with_cookie(api, cookie(answer))


def test_a_person_logs_in_and_their_name_shows_what_they_did(api: Api, fake: FakeOidc) -> None:
    fake.configure(api.service, api.tenant.tenant_id, scopes=("read", "maintain", "privacy"))
    person = enter(api, fake)
    assert fake.calls == [DISCOVERY, "/token", "/keys"]
    hold = person.act("/privacy/holds", {"by": "thread", "what": "t1", "ground": "none"})
    assert "Placed by Orla Smith" in said(person.page(hold))
    person.act(f"{hold.partition('?')[0]}/release")
    assert "by Orla Smith" in said(person.page(hold))
    for page in ("/", "/audit", "/audit/entries", "/privacy/holds?released=true"):
        assert "Orla Smith" in said(person.page(page)), page
    [operator] = operators.list_operators(api.tenant.tenant_id)
    assert (operator.issuer, operator.sub, operator.name) == (fake.url, "7f3a", "Orla Smith")
    acts = operator_log.list_actions(api.tenant.tenant_id)
    assert {act.actor for act in acts} == {str(operator.operator_id)}
    chain = str(api.service.rows("SELECT to_jsonb(audit) FROM audit"))
    assert str(operator.operator_id) in chain
    assert not any(word in chain for word in ("Orla", "Smith", "7f3a"))
    fake.claims = {"name": "Orla Jones"}
    enter(api, fake)
    assert [each.operator_id for each in operators.list_operators(api.tenant.tenant_id)] == [operator.operator_id]
    assert "Orla Jones" in said(person.page("/audit"))


def test_an_erasure_report_names_the_person_who_requested_it(api: Api, fake: FakeOidc) -> None:
    fake.configure(api.service, api.tenant.tenant_id, scopes=("privacy",))
    api.remember({"text": "likes tea", "subject": "anna"})
    person = enter(api, fake)
    place = person.act("/privacy/erasures", {"subject": "anna", "kind": "gdpr", "grace_days": "7"}).partition("?")[0]
    person.act(f"{place}/finish")
    shown = said(person.page(place))
    assert "by Orla Smith" in shown
    assert "early, by Orla Smith" in shown
    worked(api.service)
    [operator] = operators.list_operators(api.tenant.tenant_id)
    report = said(person.page(f"{place}/report"))
    assert report.count(f"Orla Smith ({operator.operator_id})") == 3


def test_the_cookies_are_bound_to_this_site_and_the_attempt_to_its_path(api: Api, fake: FakeOidc) -> None:
    started = api.get(START, key=None)
    words = {word.strip().lower() for word in started.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "secure", "samesite=lax", f"path={CALLBACK}", "max-age=600"} <= words
    done = finish(api, fake.authorize(started.headers["location"]), cookie(started, ATTEMPT_COOKIE))
    [session, attempt] = done.headers.get_list("set-cookie")
    words = {word.strip().lower() for word in session.split(";")[1:]}
    assert {"httponly", "secure", "samesite=strict", "path=/", "max-age=43200"} <= words
    assert "max-age=0" in attempt.lower()
    assert done.headers["referrer-policy"] == "no-referrer"
    assert 'content="0; url=/ops/"' in done.text
    assert "unsafe" not in done.headers["content-security-policy"]
    secrets = (fake.ask["nonce"], fake.ask["code_challenge"], "opaque", "7f3a", "Orla")
    assert not any(secret in session for secret in secrets)


def test_what_the_provider_learns_differs_between_log_ins(api: Api, fake: FakeOidc) -> None:
    seen = []
    for _ in range(2):
        fake.authorize(begin(api)[0])
        seen.append((fake.ask["state"], fake.ask["nonce"], fake.ask["code_challenge"]))
    assert len({value for each in seen for value in each}) == 6


def test_an_answer_that_doesnt_belong_to_this_browser_is_refused(
    api: Api, fake: FakeOidc, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, attempt = begin(api)
    query = fake.authorize(address)
    tampered = ("A" if attempt[0] != "A" else "B") + attempt[1:]
    cases = {
        "another log-in's": (query, begin(api)[1]),
        "no state": (query.partition("&")[0], attempt),
        "tampered cookie": (query, tampered),
        "no cookie": (query, ""),
        "session's cookie": (query, sessions.seal_session(sessions.start_session("key", api.tenant.tenant_id))),
    }
    calls = len(fake.calls)
    for case, (sent, cookies) in cases.items():
        assert refused(finish(api, sent, cookies)), case
    for unusable in ("error=access_denied&error_description=evil", f"code={'x' * 5000}"):
        address, cookies = begin(api)
        fake.authorize(address)
        answer = finish(api, f"{unusable}&state={fake.ask['state']}", cookies)
        assert refused(answer), unusable
        assert "evil" not in answer.text
    monkeypatch.setattr(sessions, "ATTEMPT_SECONDS", 0)
    assert refused(finish(api, query, attempt)), "too old"
    monkeypatch.undo()
    assert fake.calls[calls:] == [], "the provider isn't called"


def refused(answer: httpx.Response) -> bool:
    """Return whether a log-in was refused, on a page on which a key can be entered."""
    return (answer.status_code, cookie(answer)) == (401, "") and 'name="key"' in answer.text


def test_an_answer_counts_once(api: Api, fake: FakeOidc) -> None:
    address, attempt = begin(api)
    query = fake.authorize(address)
    assert finish(api, query, attempt).status_code == 200
    assert finish(api, query, attempt).status_code == 401


def test_a_code_that_was_used_or_is_another_clients_is_refused(api: Api, fake: FakeOidc) -> None:
    address, attempt = begin(api)
    used = fake.authorize(address)
    assert finish(api, used, attempt).status_code == 200
    address, attempt = begin(api)
    fake.authorize(address)
    replayed = f"{used.partition('&')[0]}&state={fake.ask['state']}"
    assert finish(api, replayed, attempt).status_code == 401
    address, attempt = begin(api)
    assert finish(api, fake.authorize(address, client="another"), attempt).status_code == 401
    address, attempt = begin(api)
    stolen = fake.authorize(address)  # by a browser whose PKCE secret is another
    address, attempt = begin(api)
    fake.authorize(address)
    mixed = f"{stolen.partition('&')[0]}&state={fake.ask['state']}"
    assert finish(api, mixed, attempt).status_code == 401


def test_a_token_of_another_log_in_is_refused(api: Api, fake: FakeOidc) -> None:
    for claims in ({"nonce": "another"}, {"iss": "http://elsewhere"}, {"aud": "another"}, {"exp": 1}, {"iat": 2**40}):
        fake.claims = claims
        assert refused(log_in(api, fake)), claims
    assert not operators.list_operators(api.tenant.tenant_id)


def test_without_a_claim_there_is_no_access(api: Api, fake: FakeOidc) -> None:
    missing, useless = "sent no claim 'groups'", "no value that grants access"
    cases = ((None, missing), ({"staff": 1}, missing), ([5], missing), (["visitors"], useless), ("Staff", useless))
    for groups, words in cases:
        fake.claims = {"groups": groups}
        answer = log_in(api, fake)
        assert (answer.status_code, cookie(answer)) == (403, ""), groups
        assert words in said(answer.text)
        assert not any(value in answer.text for value in ("visitors", "Staff", "Orla", "7f3a"))
    assert not operators.list_operators(api.tenant.tenant_id)


def test_a_rule_for_a_tenant_that_doesnt_exist_gives_no_access(api: Api, fake: FakeOidc) -> None:
    fake.configure(api.service, uuid4())
    answer = log_in(api, fake)
    assert (answer.status_code, cookie(answer)) == (403, "")


def test_keys_of_the_provider_may_change(api: Api, fake: FakeOidc, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(api, fake)
    fake.keys = [rsa_key(), ec_key()]
    assert log_in(api, fake).status_code == 401, "the keys were requested less than a minute ago"
    monkeypatch.setattr(client, "KEYS_REFRESH_SECONDS", 0.0)
    enter(api, fake)
    assert fake.calls.count("/keys") == 2
    assert fake.calls.count(DISCOVERY) == 1


FAULTS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "error": (500, {}, b"{}"),
    "redirect": (302, {"location": "http://169.254.169.254/"}, b""),
    "huge": (200, {}, b"{" * 300_000),
    "compressed": (200, {"content-encoding": "gzip"}, b"x"),
    "wrong": (200, {}, b'{"issuer": 5}'),
    "client refused": (400, {}, b'{"error": "invalid_client"}'),
    "deep": (200, {}, b"[" * 5000),
}


@pytest.mark.parametrize("path", [DISCOVERY, "/token", "/keys"])
def test_while_the_provider_fails_keys_still_work(api: Api, fake: FakeOidc, path: str) -> None:
    for case, fault in FAULTS.items():
        client._provider.cache_clear()
        fake.answers[path] = fault
        answer = api.get(START, key=None) if path == DISCOVERY else log_in(api, fake)
        assert (answer.status_code, cookie(answer), cookie(answer, ATTEMPT_COOKIE)) == (503, "", ""), case
        assert "can't be used now" in said(answer.text)
        assert 'name="key"' in answer.text
    assert keys.log_in(api, api.tenant.key).status_code == 303


def test_a_provider_that_is_away_is_called_once_in_a_while(api: Api, fake: FakeOidc) -> None:
    api.service.configure(oidc_issuer="http://127.0.0.1:1/realm")
    assert [api.get(START, key=None).status_code for _ in range(3)] == [503] * 3
    api.service.configure(oidc_issuer=fake.url)
    fake.answers[DISCOVERY] = 500, {}, b""
    assert [api.get(START, key=None).status_code for _ in range(3)] == [503] * 3
    assert fake.calls == [DISCOVERY]


def test_a_discovery_document_leads_nowhere_else(api: Api, fake: FakeOidc) -> None:
    _, _, usual = fake.answer(DISCOVERY, {}, "")
    for changed in (
        {"issuer": "http://127.0.0.1/another"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "http://127.0.0.2/token"},
        {"jwks_uri": "file:///etc/passwd"},
    ):
        client._provider.cache_clear()
        fake.answers[DISCOVERY] = 200, {}, json.dumps(json.loads(usual) | changed).encode()
        answer = api.get(START, key=None)
        if answer.status_code == 303:
            answer = finish(api, fake.authorize(answer.headers["location"]), cookie(answer, ATTEMPT_COOKIE))
        assert (answer.status_code, cookie(answer)) == (503, ""), changed


def test_a_log_in_leads_to_the_overview_whatever_the_address_asks(api: Api, fake: FakeOidc) -> None:
    address, attempt = begin(api, f"{START}?next=https://evil.example/")
    answer = finish(api, f"{fake.authorize(address)}&next=//evil.example", attempt)
    assert answer.status_code == 200
    assert "evil" not in address + answer.text + str(answer.headers)


def test_a_secret_may_be_sent_in_the_form(api: Api, fake: FakeOidc) -> None:
    fake.methods = ["client_secret_post"]
    assert log_in(api, fake).status_code == 200


def test_without_a_provider_there_is_no_such_page(api: Api) -> None:
    assert [api.get(path, key=None).status_code for path in (START, CALLBACK)] == [404, 404]
    assert START not in api.get("/ops/log-in", key=None).text


def test_the_log_in_page_offers_the_provider_and_its_log_out(api: Api, fake: FakeOidc) -> None:
    assert f'href="{START}"' in api.get("/ops/log-in", key=None).text
    person = enter(api, fake)
    assert person.send("/log-out").headers["location"] == "/ops/log-in"
    page = api.get("/ops/log-in", key=None).text
    assert (
        f'href="{fake.url}/out?client_id=ebbing&amp;post_logout_redirect_uri=http%3A%2F%2Ftest%2Fops%2Flog-in"' in page
    )
    assert person.get("/").headers["location"] == "/ops/log-in"


def test_a_session_in_the_browser_isnt_taken_over(api: Api, fake: FakeOidc) -> None:
    known = keys.cookie_of(keys.log_in(api, api.tenant.key))
    address, attempt = begin(api)
    headers = {"cookie": f"{COOKIE}={known}; {ATTEMPT_COOKIE}={attempt}"}
    answer = api.get(f"{CALLBACK}?{fake.authorize(address)}", key=None, headers=headers)
    old, new = sessions.open_session(known), sessions.open_session(cookie(answer))
    assert old
    assert new
    assert old.nonce != new.nonce


def test_a_session_ends_by_its_age(api: Api, fake: FakeOidc) -> None:
    person = enter(api, fake)
    api.service.configure(oidc_session_hours=1e-9)
    assert person.get("/").status_code == 303


def test_a_session_ends_when_its_rule_does(api: Api, fake: FakeOidc) -> None:
    person = enter(api, fake)
    own = {"scopes": ["read"], "tenants": [str(api.tenant.tenant_id)]}
    changes: tuple[dict[str, str], ...] = (
        {"oidc_scopes": json.dumps({"others": own})},
        {"oidc_scopes": json.dumps({"staff": own | {"tenants": [str(uuid4())]}})},
        {"oidc_issuer": "http://127.0.0.1:1/another"},
        {"oidc_access_claim": "roles"},
        {"oidc_issuer": "", "oidc_scopes": "{}"},
    )
    for change in changes:
        fake.configure(api.service, api.tenant.tenant_id, oidc_access_claim="groups")
        assert person.get("/").status_code == 200
        api.service.configure(**change)
        assert person.get("/").status_code == 303, change


def test_changed_scopes_hold_at_once(api: Api, fake: FakeOidc) -> None:
    person = enter(api, fake)
    assert person.get("/privacy").status_code == 403
    fake.configure(api.service, api.tenant.tenant_id, scopes=("privacy",))
    assert person.get("/privacy").status_code == 200
    assert person.get("/search").status_code == 403


def test_pages_ask_a_person_for_the_same_scopes_as_a_key(api: Api, fake: FakeOidc) -> None:
    person = enter(api, fake)
    for scope in LOOKS:
        fake.configure(api.service, api.tenant.tenant_id, scopes=(scope,))
        found = {place: person.get(place or "/").status_code for place, _, _ in rendering.PAGES}
        assert found == {place: 200 if scope in scopes else 403 for place, _, scopes in rendering.PAGES}, scope


def test_a_person_sees_the_tenants_of_their_rules_only(api: Api, fake: FakeOidc) -> None:
    second, foreign = api.service.tenant().tenant_id, api.service.tenant().tenant_id
    fake.configure(api.service, api.tenant.tenant_id, second, scopes=("read", "maintain"))
    person = enter(api, fake)
    assert str(second) in person.page("/")
    assert person.send("/tenant", {"tenant": str(foreign)}).status_code == 403
    person.cookie = cookie(person.send("/tenant", {"tenant": str(second)}))
    person.send("/schedule/night/pause")
    [first], [other] = (operators.list_operators(each) for each in (api.tenant.tenant_id, second))
    assert first.operator_id != other.operator_id
    assert {entry.name for entry in (first, other)} == {"Orla Smith"}
    assert sessions_tenant(person) == second
    fake.configure(api.service, api.tenant.tenant_id, scopes=("admin", "read"))
    assert person.get("/").status_code == 200, "the scope admin extends to every tenant"
    person.cookie = cookie(person.send("/tenant", {"tenant": str(foreign)}))
    assert sessions_tenant(person) == foreign
    assert person.send("/tenant", {"tenant": str(uuid4())}).status_code == 404


def sessions_tenant(person: Visitor) -> UUID:
    found = sessions.open_session(person.cookie)
    assert found
    return found.shown


def test_a_deleted_name_leaves_every_page_and_ends_the_sessions(api: Api, fake: FakeOidc) -> None:
    fake.configure(api.service, api.tenant.tenant_id, scopes=("read", "privacy"))
    person = enter(api, fake)
    person.act("/privacy/holds", {"by": "thread", "what": "t1", "ground": "none"})
    office = Visitor(api, tenants.issue_key(api.tenant.tenant_id, "office", ("privacy",)))
    [operator] = operators.list_operators(api.tenant.tenant_id)
    assert office.send(f"/audit/people/{uuid4()}/delete").status_code == 404
    assert office.act(f"/audit/people/{operator.operator_id}/delete") == "/audit?done=unnamed"
    assert person.get("/").status_code == 303
    for page in ("/audit", "/audit/entries", "/privacy/holds"):
        shown = said(office.page(page))
        assert "Orla" not in shown, page
        assert "a person whose name was deleted" in shown, page
    assert not operators.list_operators(api.tenant.tenant_id)
    again = enter(api, fake)
    assert again.get("/").status_code == 200
    assert [each.operator_id for each in operators.list_operators(api.tenant.tenant_id)] != [operator.operator_id]


def test_any_name_is_shown_harmlessly(api: Api, fake: FakeOidc) -> None:
    fake.configure(api.service, api.tenant.tenant_id, scopes=("privacy",))
    for name in (None, "", 5, "<script>\0\u202e</script>", "x" * 999):
        fake.claims = {"name": name}
        page = enter(api, fake).page("/audit")
        [operator] = operators.list_operators(api.tenant.tenant_id)
        assert len(operator.name) <= 200
        assert not operator.name or operator.name.isprintable()
        assert "<script></script>" not in page


def test_doctor_names_a_provider_that_cant_be_reached(api: Api, fake: FakeOidc) -> None:
    [finding] = doctor.log_ins()
    assert (finding.severity, finding.what) == ("ok", "127.0.0.1 answers")
    api.service.configure(oidc_issuer="http://127.0.0.1:1/realm")
    [finding] = doctor.log_ins()
    assert (finding.severity, finding.code) == ("attention", "log_in_provider")
    assert finding.what == "127.0.0.1, by which people log in to the dashboard, fails: it can't be reached"
    api.service.configure(oidc_issuer="")
    assert list(doctor.log_ins()) == []


def test_a_stream_of_events_ends_with_the_rule(api: Api, fake: FakeOidc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "EVERY_SECONDS", 0.0)
    session = sessions.open_session(enter(api, fake).cookie)
    assert session
    viewer = Viewer(session, session.shown, session.shown, session.key_id, frozenset({"read"}))

    async def read_events() -> int:
        count = 0
        async for _ in overview._events(viewer, overview.Streams()):
            count += 1
            api.service.configure(oidc_access_claim="roles")
        return count

    assert api.run(read_events()) == 1


def test_neither_tokens_nor_codes_nor_names_are_logged(
    api: Api, fake: FakeOidc, capsys: pytest.CaptureFixture[str]
) -> None:
    enter(api, fake)
    fake.claims = {"aud": "another"}
    log_in(api, fake)
    fake.answers["/token"] = 500, {}, b""
    log_in(api, fake)
    printed = "".join(capsys.readouterr())
    assert "log_in_refused" in printed
    assert "log_in_provider_failed" in printed
    assert not any(word in printed for word in ("code-", "opaque", "eyJ", "Orla", "7f3a", fake.ask["nonce"]))
