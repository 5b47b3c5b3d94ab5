"""The processes of `ebbing run` are forks of a preloaded parent: each is killed, and the parent too."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex

from tests.faults import family
from tests.faults.load import Caller
from tests.faults.supervised_home import LANES, Household
from tests.faults.test_kill_rounds import SETTINGS
from tests.installation import make_tenant
from tests.waiting import until, until_gone

FORKED = (*(f"worker-{lane}" for lane in LANES), "beat", "api")


def is_forked(pid: int) -> bool:
    """Return true if a process is a fork: it then began with the environment of the preloaded parent."""
    return b"REMAP_SIGTERM=" in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_killed_fork_comes_back_alone_and_a_killed_preloader_takes_none_with_it(folder: Path) -> None:
    household = Household(folder, SETTINGS)
    callers: list[Caller] = []
    try:
        household.start()
        tenant_id, key = make_tenant(household.books().database_url, f"tenant {token_hex(6)}")
        callers.append(Caller(household.url, tenant_id, key))
        [caller] = callers
        mains = household.mains()
        assert set(FORKED) < mains.keys()
        for name in FORKED:
            assert os.getsid(mains[name]) == mains[name], f"{name} has no session of its own"
        assert is_forked(mains["beat"])
        assert is_forked(mains["api"])
        caller.send()

        for name in (*FORKED, "preloader"):
            before = household.mains()
            assert family.kill(before[name], household.supervisor_pid())
            until(lambda: household.mains().get(name, before[name]) != before[name], name)  # noqa: B023 - called at once
            assert {other: pid for other, pid in household.mains().items() if other != name} == {
                other: pid for other, pid in before.items() if other != name
            }
            caller.send()
        until(lambda: household.is_ready("preloader"), "the preloader is ready again")
        beat = household.mains()["beat"]
        family.kill(beat, household.supervisor_pid())
        until(lambda: household.mains().get("beat", beat) != beat, "beat restarts")
        assert is_forked(household.mains()["beat"]), "the new preloader isn't used"

        books = household.books()
        books.wait_until_settled(callers)
        books.check(callers)
        books.check_backlog_is_nought()
        everyone = family.descendants(household.supervisor_pid())
        household.stop()
        until_gone(*everyone)
        assert sorted(path.stem for path in (folder / "logs").glob("*.log") if path.stem in FORKED) == sorted(FORKED)
    finally:
        household.stop()
        for caller in callers:
            caller.close()
