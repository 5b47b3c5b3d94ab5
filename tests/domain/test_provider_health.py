"""State of a use of models, the findings about providers, and the command that each finding proposes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.domain.health_findings import Finding, line, silence_findings
from app.domain.operator_advice import Installation, InstallationKind, advise
from app.domain.provider_health import (
    CONNECTION,
    FAILING_CALLS,
    KINDS,
    MODEL_SETTINGS,
    OLD_SECONDS,
    SILENT_SECONDS,
    USES,
    BreakerState,
    ProviderHealth,
    defer_reembedding,
    judge,
    provider_findings,
    settle,
    working_providers,
)
from app.settings import Settings

CONNECTED = ProviderHealth(CONNECTION, "models:80", "", "ok", 5.0, None, "", 0, "closed")
PROVIDER_SETTINGS = {"EBBING_OPENAI_BASE_URL", "EBBING_OPENAI_API_KEY", "EBBING_LLM_CONCURRENCY", "EBBING_LLM_HOSTS"}
RATINGS = ProviderHealth("score", "models:80", "small", "ok", 5.0, None, "", 0, "closed", waiting=7)


@pytest.mark.parametrize(
    ("success", "failure", "failures", "state"),
    [
        (None, None, 0, "unknown"),
        (5.0, None, 0, "ok"),
        (5.0, 60.0, 0, "ok"),
        (60.0, 5.0, 1, "failing"),
        (None, 5.0, 1, "failing"),
        (SILENT_SECONDS + 1, None, 0, "unknown"),
    ],
)
def test_one_failed_check_means_that_the_connection_fails(
    success: float | None, failure: float | None, failures: int, state: str
) -> None:
    found = judge(
        CONNECTION,
        success_seconds=success,
        failure_seconds=failure,
        failures_in_row=failures,
        breaker="closed",
    )
    assert found == state


@pytest.mark.parametrize(
    ("success", "failure", "failures", "breaker", "state"),
    [
        (None, None, 0, "closed", "not_called"),
        (5.0, None, 0, "closed", "ok"),
        (60.0, 5.0, FAILING_CALLS - 1, "closed", "ok"),
        (60.0, 5.0, FAILING_CALLS, "closed", "failing"),
        (None, 5.0, 1, "closed", "failing"),
        (60.0, 5.0, 1, "open", "failing"),
        (60.0, 5.0, 1, "half_open", "failing"),
        (None, OLD_SECONDS + 1, FAILING_CALLS, "closed", "ok"),
    ],
)
def test_some_failures_in_a_row_or_an_open_breaker_mean_that_a_use_fails(
    success: float | None, failure: float | None, failures: int, breaker: BreakerState, state: str
) -> None:
    found = judge("score", success_seconds=success, failure_seconds=failure, failures_in_row=failures, breaker=breaker)
    assert found == state


@pytest.mark.parametrize(
    ("failure", "waiting", "state"),
    [
        ("too_large", 7, "failing"),
        ("too_large", None, "failing"),
        ("too_large", 0, "ok"),
        ("bad_request", 0, "ok"),
        ("garbage", 0, "failing"),
        ("unreachable", 0, "failing"),
    ],
)
def test_failures_that_ended_as_dead_letters_count_only_while_memories_wait(
    failure: str, waiting: int | None, state: str
) -> None:
    found = judge(
        "score",
        success_seconds=None,
        failure_seconds=5.0,
        failures_in_row=43,
        breaker="closed",
        failure=failure,
        waiting=waiting,
    )
    assert found == state


def test_a_provider_that_answers_has_no_finding() -> None:
    assert provider_findings([CONNECTED, RATINGS]) == []
    assert provider_findings([]) == []


def test_a_provider_that_was_never_checked_is_not_called_well() -> None:
    findings = provider_findings([replace(CONNECTED, state="unknown", success_seconds=None), RATINGS])
    assert [one.code for one in findings] == ["provider_unchecked"]
    assert line(findings) != line([])


def test_calls_that_fail_because_of_the_connection_are_one_finding() -> None:
    uses = [
        replace(one, state="failing", failure="unreachable", failure_seconds=2.0, failures_in_row=4)
        for one in (CONNECTED, RATINGS)
    ]
    [found] = provider_findings(uses)
    assert (
        found.what == "the model provider at models:80 can't be reached (no connection); 7 memories wait for a rating"
    )
    assert "EBBING_OPENAI_BASE_URL" in found.todo


def test_unusable_answers_are_reported_beside_a_connection_that_fails() -> None:
    away = replace(CONNECTED, state="failing", failure="timeout", failures_in_row=1)
    nonsense = replace(RATINGS, state="failing", failure="garbage", failure_seconds=90.0, failures_in_row=3)
    assert [one.code for one in provider_findings([away, nonsense])] == ["provider", "provider_score"]
    [alone] = provider_findings([CONNECTED, nonsense])
    assert alone.what == (
        "the last 3 calls for ratings failed (unusable answer, 1 min 30 s ago); 7 memories wait for a rating"
    )


def test_a_rejected_key_is_named_with_its_setting() -> None:
    [found] = provider_findings([replace(CONNECTED, state="failing", failure="not_authorised", failures_in_row=1)])
    assert found.what == "the model provider at models:80 rejects the API key"
    assert found.todo == "set a valid EBBING_OPENAI_API_KEY"
    assert advise(found, Installation("run", "/srv")).command == (
        'EBBING_HOME=/srv EBBING_OPENAI_API_KEY="$(cat KEY_FILE)" ebbing run'
    ), "the key isn't in the shell's history"


@pytest.mark.parametrize(
    ("kind", "step", "command"),
    [
        (
            "run",
            (
                "stop `ebbing run` with Ctrl-C and start it again with the new value, and with the other settings that "
                "you passed last time and that aren't in `.env`"
            ),
            "EBBING_HOME=/srv EBBING_PORT=8812 EBBING_OPENAI_BASE_URL=NEW_VALUE ebbing run",
        ),
        ("compose", "edit `.env` and recreate the containers", "docker compose up --detach --wait"),
        (
            "kubernetes",
            "edit `config.yaml`, apply it and restart the processes",
            "kubectl apply -k ops/kubernetes/base && kubectl --namespace ebbing rollout restart deploy",
        ),
        ("processes", "restart every process with the new value", ""),
    ],
)
def test_a_setting_to_change_is_named_with_the_command_that_applies_it(
    kind: InstallationKind, step: str, command: str
) -> None:
    [found] = provider_findings([replace(CONNECTED, state="failing", failure="unreachable", failures_in_row=1)])
    advised = advise(found, Installation(kind, "/srv", address={"EBBING_PORT": "8812"}))
    assert advised.todo == (
        "check that the provider runs and that EBBING_OPENAI_BASE_URL names it; to change the setting, " + step
    )
    assert (advised.command, advised.section) == (command, "provider-fails")


@pytest.mark.parametrize("failure", KINDS)
@pytest.mark.parametrize("use", USES.keys() - {CONNECTION})
def test_each_kind_of_failure_has_a_next_step_and_a_command_that_fits_it(failure: str, use: str) -> None:
    one = replace(RATINGS, use=use, state="failing", failure=failure, failure_seconds=9.0, failures_in_row=3)
    [found] = provider_findings([one])
    advised = advise(found, Installation("run", "/srv"))
    assert found.setting in {"", *MODEL_SETTINGS.values(), *PROVIDER_SETTINGS}
    assert found.setting in found.todo
    assert "{" not in found.todo
    assert all(text.count(":") <= 1 for text in advised.lines if text != advised.command)
    if found.setting:
        assert f" {found.setting}=" in advised.command
    else:
        assert bool(advised.command) == (failure == "garbage"), "only the log says what is wrong with the answers"


@pytest.mark.parametrize(("use", "setting"), MODEL_SETTINGS.items())
def test_texts_that_are_too_long_need_another_model_of_that_use(use: str, setting: str) -> None:
    one = replace(RATINGS, use=use, state="failing", failure="too_large", failure_seconds=9.0, failures_in_row=3)
    [found] = provider_findings([one])
    assert f"set {setting} to a model with a longer context" in found.todo
    assert "JSON" not in found.todo
    assert ("discard the dead letters" in found.todo) == (use == "score"), "only ratings become dead letters for it"


def test_every_setting_that_a_next_step_names_exists() -> None:
    fields = {f"EBBING_{name.upper()}" for name in Settings.model_fields}
    assert {*MODEL_SETTINGS.values(), *PROVIDER_SETTINGS} <= fields


@pytest.mark.parametrize(
    ("failure", "state", "step"),
    [
        ("server_error", "answers with errors (HTTP 5xx)", "status page"),
        ("bad_request", "refuses requests (HTTP 4xx)", "read the reason in the provider's log"),
        ("rate_limited", "answers, but the check fails (too many requests)", "EBBING_LLM_CONCURRENCY"),
        ("timeout", "can't be reached (no answer in time)", "EBBING_OPENAI_BASE_URL"),
    ],
)
def test_a_provider_that_answers_with_errors_is_not_called_unreachable(failure: str, state: str, step: str) -> None:
    [found] = provider_findings([replace(CONNECTED, state="failing", failure=failure, failures_in_row=1)])
    assert found.what == f"the model provider at models:80 {state}"
    assert step in found.todo
    assert "JSON" not in found.todo


def test_uses_of_a_provider_that_fails_are_not_called_well() -> None:
    uncalled = replace(RATINGS, state="not_called", success_seconds=None)
    away = replace(CONNECTED, state="failing", failure="timeout", failures_in_row=1)
    assert working_providers([away, uncalled]) == []
    assert [one.what for one in working_providers([CONNECTED, uncalled])] == [
        "connection: models:80, last success 5 seconds ago",
        "ratings: small at models:80, not called yet",
    ]


def test_a_use_whose_calls_all_failed_is_not_called_unused() -> None:
    refused = replace(RATINGS, success_seconds=None, failure_seconds=60.0, failure="too_large", failures_in_row=43)
    assert [one.what for one in working_providers([refused])] == [
        "ratings: small at models:80, no success yet, last failure 1 minute ago (text too long)"
    ]


def test_only_an_embedder_makes_a_dead_provider_urgent() -> None:
    away = replace(CONNECTED, state="failing", failure="timeout", failures_in_row=1)
    embeddings = replace(RATINGS, use="embed", waiting=None)
    assert [one.severity for one in provider_findings([away, RATINGS])] == ["attention"]
    assert [one.severity for one in provider_findings([away, RATINGS, embeddings])] == ["trouble"]


def test_embeddings_that_wait_are_named_apart_from_ratings() -> None:
    away = replace(CONNECTED, state="failing", failure="unreachable", failures_in_row=1)
    embeddings = replace(RATINGS, use="embed", waiting=1)
    [found] = provider_findings([away, RATINGS, embeddings])
    assert found.what == (
        "the model provider at models:80 can't be reached (no connection); 7 memories wait for a rating; "
        "1 memory waits for an embedding, and isn't found by its meaning until then"
    )
    [none_yet] = provider_findings([away, replace(embeddings, waiting=0)])
    assert none_yet.what.endswith("new memories aren't found by their meaning until it answers")


def test_embedding_again_is_not_advised_while_the_provider_of_embeddings_fails() -> None:
    [elsewhere] = [Finding("attention", "embedding_space", "searches use another model", "run `ebbing reembed`")]
    embeddings = replace(RATINGS, use="embed", waiting=1)
    away = replace(CONNECTED, state="failing", failure="unreachable", failures_in_row=1)
    for failing in ([away, embeddings], [CONNECTED, replace(embeddings, state="failing")]):
        [deferred] = defer_reembedding([elsewhere], failing)
        assert deferred.todo == "once the provider answers, run `ebbing reembed`"
    assert defer_reembedding([elsewhere], [CONNECTED, embeddings]) == [elsewhere]
    assert defer_reembedding([elsewhere], [away, RATINGS]) == [elsewhere], "another provider, or a local embedder"


CHECKS = replace(
    RATINGS,
    use="contradict",
    state="failing",
    success_seconds=None,
    failure_seconds=90.0,
    failures_in_row=2,
    waiting=None,
)


@pytest.mark.parametrize(
    ("failure", "working", "state"),
    [
        ("server_error", RATINGS, "ok"),
        ("server_error", replace(RATINGS, model="large"), "failing"),
        ("server_error", replace(RATINGS, address="others:80"), "failing"),
        ("server_error", replace(RATINGS, success_seconds=91.0), "failing"),
        ("server_error", CONNECTED, "failing"),
        ("unreachable", CONNECTED, "ok"),
        ("not_authorised", CONNECTED, "ok"),
        ("garbage", RATINGS, "failing"),
        ("too_large", RATINGS, "failing"),
    ],
)
def test_a_later_success_disproves_a_failure_of_a_nightly_use(
    failure: str, working: ProviderHealth, state: str
) -> None:
    failing = replace(CHECKS, failure=failure)
    assert [one.state for one in settle([working, failing])] == ["ok", state]
    embeddings = replace(failing, use="embed")
    assert settle([working, embeddings]) == [working, embeddings], "its next call is soon"


def test_a_nightly_use_says_when_its_warning_ends() -> None:
    [found] = provider_findings([CONNECTED, RATINGS, replace(CHECKS, failure="too_large", failure_seconds=540.0)])
    assert found.what == (
        "the last 2 calls for contradiction checks failed (text too long, 9 min ago); most such calls are made at "
        "night, and without another failure this warning ends in 51 min"
    )
    assert found.todo.startswith("nothing needs to change if few texts are concerned")


def silent(source: str) -> Finding:
    [found] = silence_findings({source: 90.0})
    return found


@pytest.mark.parametrize(
    ("kind", "lane", "beat", "letters"),
    [
        (
            "run",
            "kill -KILL 42",
            "tail -n 50 '/srv/my home/logs/beat.log'",
            "EBBING_HOME='/srv/my home' ebbing dead-letters",
        ),
        (
            "compose",
            "docker compose restart worker-embed",
            "docker compose restart beat",
            "docker compose exec -e EBBING_API_KEY api ebbing dead-letters",
        ),
        (
            "kubernetes",
            "kubectl --namespace ebbing rollout restart deploy/worker-embed",
            "kubectl --namespace ebbing rollout restart deploy/beat",
            'kubectl --namespace ebbing exec deploy/api -- env EBBING_API_KEY="$EBBING_API_KEY" ebbing dead-letters',
        ),
        ("processes", "ebbing worker --lane embed", "ebbing beat", "ebbing dead-letters"),
    ],
)
def test_a_command_fits_the_installation(kind: InstallationKind, lane: str, beat: str, letters: str) -> None:
    here = Installation(kind, "/srv/my home", {"embed": 42})
    assert advise(silent("embed"), here).command == lane
    assert advise(silent("beat"), here).command == beat
    assert advise(Finding("attention", "dead_letters", "2 dead letters"), here).command == letters


def test_a_process_of_ebbing_run_is_ended_because_the_supervisor_starts_it_again() -> None:
    assert "started again" in advise(silent("embed"), Installation("run", pids={"embed": 42})).todo
    without_pid = advise(silent("embed"), Installation("run"))
    assert "log" in without_pid.todo
    assert "kill" not in without_pid.command
    assert advise(silent("embed"), Installation("compose")).todo == "restart it"


def test_commands_in_a_text_fit_the_installation_too() -> None:
    refused = Finding("trouble", "redis", "replaced", "put it back, or run `ebbing queue accept`", section="x")
    found = advise(refused, Installation("compose"))
    assert found.todo == "put it back, or run this command"
    assert (found.command, found.section) == ("docker compose exec -e EBBING_API_KEY api ebbing queue accept", "x")
    behind = Finding("trouble", "schema", "the schema is old", "run `ebbing migrate`")
    assert advise(behind, Installation("compose")).command == "docker compose run --rm migrate"
    assert advise(behind, Installation("run", "/srv")).command == "EBBING_HOME=/srv ebbing run"
    assert advise(behind, Installation()).lines == ["The schema is old.", "Run this command:", "ebbing migrate"]


def test_what_is_well_or_unknown_gets_no_command() -> None:
    here = Installation("compose")
    for finding in (Finding("ok", "lane_embed", "heard"), Finding("trouble", "api_key", "refused")):
        assert advise(finding, here) == finding


@pytest.mark.parametrize(
    ("failure", "checked_seconds", "is_restored"),
    [("unreachable", 2.0, True), ("timeout", 2.0, True), ("unreachable", 30.0, False), ("not_found", 2.0, False)],
)
def test_a_connection_that_works_again_needs_no_correction(
    failure: str, checked_seconds: float, is_restored: bool
) -> None:
    failing = replace(RATINGS, state="failing", failure=failure, failure_seconds=10.0, failures_in_row=4)
    [finding] = provider_findings([replace(CONNECTED, success_seconds=checked_seconds), failing])
    assert finding.todo.startswith("wait a minute, because the connection works again") == is_restored
    assert ("EBBING_OPENAI_BASE_URL" in finding.todo) != is_restored
    elsewhere = replace(CONNECTED, address="other:80", success_seconds=2.0)
    assert "EBBING_OPENAI_BASE_URL" in provider_findings([elsewhere, failing])[0].todo
