"""The options of `make bench-forgetting`, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.forgetting.__main__ import main
from ops.forgetting.life import Plan
from ops.forgetting.options import parse
from ops.recall.dataset import INVENTED


def test_everything_is_measured_by_default() -> None:
    wanted = parse([])
    assert (wanted.data, wanted.usage, wanted.leave_out) == ([INVENTED], ["none", "later"], ["adversarial"])
    assert wanted.profile == ["spec", "mnemex", "cmm", "memory_decay"]
    assert parse(["--leave-out", "none"]).leave_out == []


@pytest.mark.parametrize("wrong", [["--days", "0"], ["--policy", "[]"], ["--policy", "{"], ["--usage", "asked"]])
def test_a_wrong_option_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(wrong)
    assert wrong[0] in capsys.readouterr().err


def test_a_policy_replaces_fields_of_the_default_but_never_pays_a_model() -> None:
    plan = Plan(365, 7, 1, {"protection": {"salience_above": 0.4}, "forgetting": {"by_content": True}})
    policy = plan.profile("mnemex")
    assert (policy.protection.salience_above, policy.forgetting.profile) == (0.4, "mnemex")
    assert policy.forgetting.by_content
    assert policy.budget.tokens == 0


def test_a_missing_file_and_a_wrong_policy_are_named_before_a_server_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path / "nothing.jsonl")]) == 2
    assert "nothing.jsonl" in capsys.readouterr().err.replace("\n", "")
    assert main(["--policy", '{"protection": {"salience_over": 1}}']) == 2
    assert "protection.salience_over" in capsys.readouterr().err
