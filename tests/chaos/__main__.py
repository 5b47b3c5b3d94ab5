"""Break every part of the running service at random under load, and check that nothing is lost, doubled or left over.

    python -m tests.chaos --seed 1 --minutes 30

The plan of faults follows from `--seed`, `--minutes` and `--faults` alone, so that a run can be repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.driver import Run, say
from tests.chaos.plan import GROUPS, make_plan

PRIVATE = "EBBING_CHAOS_PRIVATE"
CALM_SHARE = 0.1
CALM_SECONDS = (25.0, 150.0)


def is_in_namespace() -> bool:
    """Run this program again in mount and network namespaces of its own, if permitted; return True inside them."""
    if os.environ.pop(PRIVATE, ""):
        return True
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        return False
    arguments = [unshare, "--mount", "--net", "--propagation", "private"]
    if subprocess.run([*arguments, "true"], capture_output=True, check=False).returncode == 0:
        os.environ[PRIVATE] = "1"
        os.execv(unshare, [*arguments, sys.executable, "-m", "tests.chaos", *sys.argv[1:]])  # noqa: S606
    return False


def main(arguments: Sequence[str]) -> int:
    """Run the plan, until SIGINT at most; return 1, after printing the seed and what is wrong, if anything is."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="seed of the plan; drawn and printed without it")
    parser.add_argument("--minutes", type=float, default=3, help="duration of the faults (%(default)s)")
    parser.add_argument("--faults", default=",".join(GROUPS), help="groups of faults, by comma (all)")
    parser.add_argument("--report", type=Path, help="file for the report as JSON")
    parser.add_argument("--keep-logs", type=Path, metavar="FOLDER", help="copy the processes' logs to a folder")
    parser.add_argument("--plan", action="store_true", help="print the plan and end")
    given = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    groups = given.faults.split(",")
    if unknown := set(groups) - GROUPS.keys():
        parser.error(f"unknown groups: {', '.join(unknown)}; known are {', '.join(GROUPS)}")
    if given.plan:
        print(*(f"{fault.begins:8.1f} s  {fault}" for fault in make_plan(seed, given.minutes, groups)), sep="\n")
        return 0
    if given.seed is None:
        sys.argv += ["--seed", str(seed)]
    is_private = is_in_namespace()
    again = f'make test-chaos ARGS="--seed {seed} --minutes {given.minutes:g} --faults {given.faults}"'
    say(f"seed {seed}; again with: {again}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave the block below, which stops all processes
    folder = Path(tempfile.mkdtemp(prefix="ebbing-chaos-", dir=os.environ.get("TMPDIR", "/var/tmp")))  # noqa: S108
    folder.chmod(0o711)
    calm = min(max(given.minutes * 60 * CALM_SHARE, CALM_SECONDS[0]), CALM_SECONDS[1])
    run = Run(folder, make_plan(seed, given.minutes, groups), seed, calm, is_private=is_private)
    signal.signal(signal.SIGINT, lambda *_: run.cut_short())
    try:
        run.run()
    except Exception as error:  # noqa: BLE001 - becomes a finding, beside those of the load
        traceback.print_exc()
        run.findings.append(f"stopped early: {error!r}")
    finally:
        report = run.summary()
        run.close()
        if given.keep_logs:
            shutil.copytree(folder / "logs", given.keep_logs, dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    if given.report:
        given.report.write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(json.dumps(report, indent=1))
    if report["findings"]:
        print(*(f"FAILED: {finding}" for finding in report["findings"]), f"seed {seed}: {again}", sep="\n")
        return 1
    say(f"nothing wrong after {report['faults']} faults")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
