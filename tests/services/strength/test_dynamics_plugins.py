"""External models of forgetting: from a package, from a file, and rejected ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from typer.testing import CliRunner

from app import main
from app.cli import app
from app.domain.dynamics.profiles import BUILT_IN, PROFILES
from app.domain.dynamics.state import DAY_SECONDS, SQL_NOW, sql_columns
from app.domain.policy.policy import Policy
from app.domain.search.request import SearchRequest
from app.errors import Invalid, Misconfigured, ProfileMissing
from app.services.enrichment import stage_runner
from app.services.monitoring import doctor, doctor_stores
from app.services.search.search import search
from app.services.strength import current_policy, dynamics_plugins, memory_strength
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange
from app.store.core import database
from app.store.strength import states
from tests.api.caller import Api
from tests.service import Service
from tests.services.strength_rows import fill

EXAMPLE = Path(__file__).resolve().parents[2] / "plugins" / "example"
MEMORIES = 40


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Unload every model after each test."""
    yield
    dynamics_plugins.forget()
    for name in ("half_life", "misfit"):
        sys.modules.pop(name, None)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's package as installed by pip: its module and its metadata."""
    (tmp_path / "half_life.py").write_text((EXAMPLE / "half_life.py").read_text())
    install(tmp_path, "half_life = half_life:profile")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(folder: Path, entry_points: str) -> None:
    info = folder / "ebbing_half_life-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ebbing-half-life\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ebbing.dynamics]\n{entry_points}\n")


def misfit(folder: Path, code: str) -> None:
    """Install a package whose module `misfit` extends the example's model with this code."""
    (folder / "misfit.py").write_text(f"from half_life import *\n{code}\n")
    install(folder, "misfit = misfit:profile")


def strength_of(tenant_id: UUID, days: float) -> Any:
    with database.tenant(tenant_id) as tx:
        times = memory_strength.load_timeline(tx, tenant_id)
        moment = database.now(tx).timestamp() + days * DAY_SECONDS
        held = states.list_page(tx, tenant_id, UUID(int=0), MEMORIES)
    return times.at(moment).dynamics.strength(memory_strength.advance_to_era(held, times, moment).state, moment)


def test_the_examples_project_names_what_the_tests_install() -> None:
    assert 'half_life = "half_life:profile"' in (EXAMPLE / "pyproject.toml").read_text()
    assert '[project.entry-points."ebbing.dynamics"]' in (EXAMPLE / "pyproject.toml").read_text()


def test_a_packages_model_is_offered_to_policies(service: Service, installed: Path) -> None:
    assert dynamics_plugins.load() == {"half_life": "half_life:profile of ebbing-half-life"}
    assert dynamics_plugins.load() == dynamics_plugins.load()
    tenant = service.tenant()
    fill(service, tenant, Policy().model, MEMORIES)
    before = strength_of(tenant.tenant_id, 1e-4)
    policy_versions.write_change(tenant.tenant_id, RequestedChange({"forgetting": {"profile": "half_life"}}))
    now, later = strength_of(tenant.tenant_id, 0), strength_of(tenant.tenant_id, 10)
    np.testing.assert_allclose(now, before, rtol=1e-4)
    np.testing.assert_allclose(later, now / 2, rtol=1e-6)
    with pytest.raises(Invalid) as refused:
        policy_versions.write_change(
            tenant.tenant_id, RequestedChange({"forgetting": {"parameters": {"half_life_days": 0}}})
        )
    assert refused.value.errors[0].field == "policy.forgetting.parameters.half_life_days"


def test_its_formula_is_the_same_in_sql(service: Service, installed: Path) -> None:
    dynamics_plugins.load()
    policy = Policy.model_validate({"forgetting": {"profile": "half_life", "parameters": {"half_life_days": 3}}})
    tenant = service.tenant(policy)
    fill(service, tenant, policy.model, MEMORIES)
    with database.tenant(tenant.tenant_id) as tx:
        held = states.list_page(tx, tenant.tenant_id, UUID(int=0), MEMORIES)
    formula = policy.model.strength_sql(sql_columns(), SQL_NOW)
    columns = f"date_part('epoch', now()), {formula}"
    found = service.rows(f"SELECT {columns} FROM memory_state ORDER BY memory_id")  # noqa: S608 - the model's own text
    moments, strengths_found = zip(*found, strict=True)
    np.testing.assert_allclose(strengths_found, policy.model.strength(held.state, np.array(moments)), atol=1e-9)


def test_a_file_is_offered_under_its_name_and_stepped_by_ticks(service: Service) -> None:
    service.configure(dynamics_files=f"gentle={EXAMPLE / 'decay_fn.py'}")
    assert list(dynamics_plugins.load()) == ["gentle"]
    forgetting = {"profile": "gentle", "parameters": {"settings": {"floor": 0.4}}}
    policy = Policy.model_validate({"forgetting": forgetting})
    tenant = service.tenant(policy)
    fill(service, tenant, policy.model, MEMORIES)
    with database.tenant(tenant.tenant_id) as tx:
        held = states.list_page(tx, tenant.tenant_id, UUID(int=0), MEMORIES)
    anchor = float(held.state.anchored_at.max())
    model = policy.model
    start = model.advance(held.state, anchor)
    by_hand = []
    for row in range(MEMORIES):
        amount, stability = math.exp(start.level[row]), start.stability[row]
        mtype = "fact" if start.kind[row] in {1, 2, 4} else "episode"
        impact = start.salience[row]
        for _ in range(5):
            rate = {"fact": 0.02, "episode": 0.035}[mtype] / ((1 + 0.5 * impact) * (1 + 0.8 * stability))
            floor = min(0.4 * impact, amount)
            amount = floor + (amount - floor) * math.exp(-rate)
            stability *= 0.99
        by_hand.append(amount)
    moment = start.anchored_at + 5 * DAY_SECONDS
    np.testing.assert_allclose(model.strength(start, moment), by_hand, rtol=1e-9)
    assert math.isfinite(model.refresh_seconds), "a sweep moves its anchor"
    due = model.due_at(start, 1e-6)
    np.testing.assert_allclose(
        due, start.anchored_at + 8 * DAY_SECONDS + 0.001, err_msg="it looks no further than that"
    )


def test_a_policys_own_settings_are_tried_out_too(service: Service, tmp_path: Path) -> None:
    (tmp_path / "decay_fn.py").write_text(
        "def compute_decay(activation, impact, stability, mtype, params):\n"
        "    return activation * params.get('factor', 0.9)\n"
    )
    service.configure(dynamics_files=f"own={tmp_path / 'decay_fn.py'}")
    dynamics_plugins.load()
    tenant = service.tenant()

    def change(parameters: dict[str, Any]) -> RequestedChange:
        return RequestedChange({"forgetting": {"profile": "own", "parameters": parameters}})

    for parameters, reason in (
        ({"settings": {"factor": 1.1}}, "must not return more than the activation"),
        ({"tick_seconds": 3600, "refresh_days": 60}, "ticks of tick_seconds at most"),
    ):
        with pytest.raises(Invalid) as refused:
            policy_versions.write_change(tenant.tenant_id, change(parameters))
        [error] = refused.value.errors
        assert error.field == "policy.forgetting.parameters"
        assert reason in error.message
    with pytest.raises(Invalid) as refused:
        policy_versions.write_change(tenant.tenant_id, change({"settings": {"factor": "x"}}))
    assert refused.value.errors[0].field == "policy.forgetting.parameters.settings.factor"
    assert policy_versions.write_change(tenant.tenant_id, change({"settings": {"factor": 0.5}}))[0].is_new


BAD_FILES = {
    "import error": ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    "syntax": ("def compute_decay(:", "SyntaxError"),
    "no function": ("x = 1", "it has no function compute_decay"),
    "no callable": ("compute_decay = 5", "it has no function compute_decay"),
    "other arguments": ("def compute_decay(activation): return 1.0", "takes 1 positional argument"),
    "raises": ("def compute_decay(*given): return 1 / given[1]", "ZeroDivisionError for activation 0.0, impact 0.0"),
    "NaN": ("def compute_decay(*given): return float('nan')", "must return 0 to 1, not nan"),
    "None": ("def compute_decay(*given): return None", "raises TypeError"),
    "negative": ("def compute_decay(a, *given): return a - 0.5", "must return 0 to 1, not -0.5"),
    "above 1": ("def compute_decay(*given): return 1.5", "must return 0 to 1, not 1.5"),
    "growth": ("def compute_decay(a, *given): return min(a * 1.01, 1)", "must not return more than the activation"),
}


@pytest.mark.parametrize(("code", "reason"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_stops_the_start_and_is_named(service: Service, tmp_path: Path, code: str, reason: str) -> None:
    path = tmp_path / "decay_fn.py"
    path.write_text(code)
    service.configure(dynamics_files=f"mine={path}")
    with pytest.raises(Misconfigured) as refused:
        dynamics_plugins.load()
    assert str(refused.value).startswith(f"the dynamics 'mine' ({path}) can't be used: ")
    assert reason in str(refused.value)
    assert set(PROFILES) == BUILT_IN


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("spec={file}", "the name of a built-in profile"),
        ("mine=/nowhere/decay_fn.py", "there is no such file"),
        ("a b={file}", "letters, digits"),
    ],
)
def test_a_name_or_path_that_cannot_be_is_told(service: Service, given: str, reason: str) -> None:
    service.configure(dynamics_files=given.format(file=EXAMPLE / "decay_fn.py"))
    with pytest.raises(Misconfigured, match=reason):
        dynamics_plugins.load()


@pytest.mark.parametrize("given", ["mine", "=x.py", "mine=", "a=x.py,a=y.py"])
def test_a_setting_without_name_or_path_is_refused(service: Service, given: str) -> None:
    service.configure(dynamics_files=given)
    with pytest.raises(ValueError, match=r"name=path\.py"):
        dynamics_plugins.load()


MISFITS = {
    "another name": ("profile = (HalfLife, HalfLifeParameters)", "has the name 'half_life'"),
    "no pair": ("profile = 5", "must be a Profile, \\(model, parameters\\)"),
    "a class alone": ("profile = HalfLife", "must be a Profile, \\(model, parameters\\)"),
    "parameters that change": (
        "@dataclass\nclass P:\n    x: int = 1\nclass M(HalfLife):\n    name = 'misfit'\nprofile = (M, P)",
        "one frozen dataclass",
    ),
    "no methods": (
        (
            "@dataclass(frozen=True)\nclass M:\n    parameters: object\n    name = 'misfit'\n"
            "profile = (M, HalfLifeParameters)"
        ),
        (
            "lacks these members of `Dynamics`: strength, score, strength_sql, due_at, advance, at_strength, "
            "reinforce, refresh_seconds"
        ),
    ),
    "grows": (
        (
            "class M(HalfLife):\n    name = 'misfit'\n"
            "    def strength(self, state, now):\n        return 1 - super().strength(state, now) / 2\n"
            "def profile():\n    return M, HalfLifeParameters"
        ),
        "strength must be 1 for a new memory: the value is 0.5",
    ),
    "revives": (
        (
            "class M(HalfLife):\n    name = 'misfit'\n    def strength(self, state, now):\n"
            "        days = (now - state.accessed_at) / DAY_SECONDS\n"
            "        return np.where(days < 1, 1.0, np.minimum(days / 100, 1.0))\n"
            "profile = (M, HalfLifeParameters)"
        ),
        "strength rises without a use, by day 6.5",
    ),
    "NaN": (
        (
            "class M(HalfLife):\n    name = 'misfit'\n    def strength(self, state, now):\n"
            "        return super().strength(state, now) * np.nan\nprofile = (M, HalfLifeParameters)"
        ),
        "strength must be 0 to 1: the value is nan",
    ),
    "late": (
        (
            "class M(HalfLife):\n    name = 'misfit'\n    def due_at(self, state, thresholds):\n"
            "        return super().due_at(state, thresholds) + 60\nprofile = (M, HalfLifeParameters)"
        ),
        "due_at must not be later than the fall below 0.3",
    ),
    "weakens": (
        (
            "class M(HalfLife):\n    name = 'misfit'\n    def reinforce(self, state, event):\n"
            "        return self.at_strength(super().reinforce(state, event), event.now, 0.01)\n"
            "profile = (M, HalfLifeParameters)"
        ),
        "reinforce weakens \\(direct\\)",
    ),
    "raises": ("def profile():\n    raise KeyError('licence')", "KeyError: 'licence'"),
    "refresh": (
        "class M(HalfLife):\n    name = 'misfit'\n    refresh_seconds = math.nan\nprofile = (M, HalfLifeParameters)",
        "refresh_seconds must be above 0",
    ),
}


@pytest.mark.parametrize(("code", "reason"), MISFITS.values(), ids=MISFITS)
def test_a_package_that_is_not_fit_stops_the_start_and_is_named(
    service: Service, installed: Path, code: str, reason: str
) -> None:
    misfit(installed, code)
    with pytest.raises(Misconfigured, match=reason) as refused:
        dynamics_plugins.load()
    assert str(refused.value).startswith("the dynamics 'misfit' (misfit:profile of ebbing-half-life) can't be used: ")
    assert set(PROFILES) == BUILT_IN


def test_two_of_one_name_are_refused(service: Service, installed: Path) -> None:
    service.configure(dynamics_files=f"half_life={EXAMPLE / 'decay_fn.py'}")
    with pytest.raises(Misconfigured, match="another plugin has the same name"):
        dynamics_plugins.load()


# --- A missing model ---


def test_a_missing_model_leaves_its_tenants_memories_as_they_are_and_the_others_work(
    service: Service, installed: Path
) -> None:
    dynamics_plugins.load()
    policy = Policy.model_validate({"forgetting": {"profile": "half_life"}})
    lost, well = service.tenant(policy), service.tenant()
    fill(service, lost, policy.model, MEMORIES)
    stage_runner.run_index_stage()
    memory_strength._era.cache_clear()
    dynamics_plugins.forget()

    with pytest.raises(ProfileMissing, match="'half_life' isn't installed here: install the version"):
        strength_of(lost.tenant_id, 0)
    rows = service.rows("SELECT state::text FROM memory_state AS state ORDER BY 1")
    with pytest.raises(ProfileMissing):
        policy_versions.preview_change(
            lost.tenant_id, RequestedChange({"tiers": {"archived_below": 0.9}, "forgetting": None})
        )
    assert service.rows("SELECT state::text FROM memory_state AS state ORDER BY 1") == rows

    for tenant in (lost, well):
        service.send(tenant.tenant_id, "the tea is in the cupboard")
    service.work()
    for tenant in (lost, well):
        found = search(tenant.tenant_id, SearchRequest("tea"))
        assert found[0].text == "the tea is in the cupboard", "words and closeness need no strength"
    assert search(lost.tenant_id, SearchRequest("tea in the cupboard", mode="cmm", session="s", turn=1))
    assert current_policy.read(lost.tenant_id).forgetting.profile == "half_life"
    unscored = "SELECT count(*) FROM memory_state WHERE salience IS NULL AND tenant_id = %s"
    assert [service.one(unscored, tenant.tenant_id) for tenant in (lost, well)] == [1, 0]
    assert service.letters(lost.tenant_id) == []
    shown = policy_versions.list_in_force(lost.tenant_id)[0].era.policy
    assert shown == policy

    assert dynamics_plugins.count_missing() == {"half_life": 1}
    [finding] = doctor_stores.missing_dynamics()
    assert finding.severity == "trouble"
    assert "1 tenants use the forgetting model 'half_life'" in finding.detail
    assert "EBBING_DYNAMICS_FILES" in finding.detail
    dynamics_plugins.load()
    service.rows("UPDATE tenant_work SET claimed_until = now()")
    service.work()
    assert service.one(unscored, lost.tenant_id) == 0, "pending work is done as soon as the model is back"
    assert strength_of(lost.tenant_id, 0).size == MEMORIES
    assert [one.severity for one in (*doctor_stores.missing_dynamics(), *doctor.dynamics())] == ["ok"]


def test_a_model_that_waits_to_hold_counts_as_missing_too_and_one_left_behind_does_not(
    service: Service, installed: Path
) -> None:
    dynamics_plugins.load()
    tenant = service.tenant()
    at = datetime.now(UTC) + timedelta(days=1)
    policy_versions.write_change(
        tenant.tenant_id, RequestedChange({"forgetting": {"profile": "half_life"}}, effective_at=at)
    )
    dynamics_plugins.forget()
    assert dynamics_plugins.count_missing() == {"half_life": 1}
    policy_versions.write_change(tenant.tenant_id, RequestedChange({"history_days": 9}))
    assert dynamics_plugins.count_missing() == {}


def test_the_doctor_names_what_is_not_fit(service: Service) -> None:
    service.configure(dynamics_files="mine=/nowhere.py")
    [finding] = doctor.dynamics()
    assert (finding.severity, "'mine' (/nowhere.py) can't be used" in finding.detail) == ("trouble", True)


def test_a_tenant_may_leave_a_missing_model_and_its_memories_follow_once_it_is_back(
    service: Service, installed: Path
) -> None:
    dynamics_plugins.load()
    policy = Policy.model_validate({"forgetting": {"profile": "half_life"}})
    tenant = service.tenant(policy)
    fill(service, tenant, policy.model, MEMORIES)
    before = strength_of(tenant.tenant_id, 0)
    memory_strength._era.cache_clear()
    dynamics_plugins.forget()
    assert policy_versions.write_change(tenant.tenant_id, RequestedChange({"forgetting": None}))[0].era.version == 2
    assert current_policy.read(tenant.tenant_id) == Policy()
    assert dynamics_plugins.count_missing() == {}
    with pytest.raises(ProfileMissing):
        strength_of(tenant.tenant_id, 0)
    dynamics_plugins.load()
    np.testing.assert_allclose(strength_of(tenant.tenant_id, 0), before, rtol=1e-4)


# --- Start-up ---


def test_neither_the_api_nor_a_worker_starts_with_a_model_that_is_not_fit(
    service: Service,
) -> None:
    service.configure(dynamics_files="mine=/nowhere.py")
    with pytest.raises(Misconfigured, match="'mine'"):
        main.build()
    with pytest.raises(SystemExit):
        import_module("workers.celery_app")._check()


@pytest.mark.parametrize("command", ["api", "run"])
def test_the_command_says_in_one_line_what_is_wrong(service: Service, tmp_path: Path, command: str) -> None:
    service.configure(dynamics_files="mine=/nowhere.py", home=tmp_path)
    done = CliRunner().invoke(app, [command], prog_name="ebbing")
    assert done.exit_code == 1
    assert done.stderr == "ebbing: the dynamics 'mine' (/nowhere.py) can't be used: there is no such file\n"


def test_api_and_workers_offer_what_is_fit(service: Service, installed: Path) -> None:
    with Api(service) as api:
        answer = api.put("/v1/policy", json={"policy": {"forgetting": {"profile": "half_life"}}})
        assert answer.status_code == 200
        assert answer.json()["policy"]["forgetting"]["parameters"]["half_life_days"] == 10
    dynamics_plugins.forget()
    import_module("workers.celery_app")._check()
    assert "half_life" in PROFILES
