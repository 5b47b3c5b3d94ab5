"""Chapter 11: a whole service that lives and dies with a program, `Ebbing.local`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebbing_client import AsyncEbbing, Ebbing, LocalServiceError, Misconfigured, ServiceUnreachable
from tests.faults.family import children, descendants
from tests.waiting import PATIENCE_SECONDS, until_gone

pytestmark = [pytest.mark.slow, pytest.mark.long]

WAIT = int(PATIENCE_SECONDS)
PROGRAM = """
import sys, time
from ebbing_client import Ebbing
ebbing = Ebbing.local(sys.argv[1], start_timeout=float(sys.argv[2]))
ebbing.add("Ann drinks rooibos", wait=30)
print("stored", flush=True)
time.sleep(3600)
"""


def test_a_local_service_keeps_its_data_and_leaves_no_process(tmp_path: Path) -> None:
    home = tmp_path / "memories"
    others = set(children(os.getpid()))
    with Ebbing.local(home, start_timeout=PATIENCE_SECONDS, timeout=PATIENCE_SECONDS) as ebbing:
        [tea] = ebbing.add("Ann drinks rooibos", subject="ann", wait=WAIT).ids
        assert ebbing.search("Which tea does Ann drink?").ids == (tea,)
        with pytest.raises(LocalServiceError, match="is in use by process"):
            Ebbing.local(home, start_timeout=PATIENCE_SECONDS)
        assert ebbing.get(tea).text == "Ann drinks rooibos"
        # The tests' own PostgreSQL is another child of this process, and may start backends at any time.
        [service] = set(children(os.getpid())) - others
        family = [service, *descendants(service)]
        assert len(family) > 5
    until_gone(*family)
    ebbing.close()  # again, without effect

    async def again() -> None:
        async with await AsyncEbbing.local(home, start_timeout=PATIENCE_SECONDS, timeout=PATIENCE_SECONDS) as opened:
            assert (await opened.get(tea)).text == "Ann drinks rooibos"

    asyncio.run(again())
    with pytest.raises(Misconfigured, match="batch_size"):
        Ebbing.local(home, start_timeout=PATIENCE_SECONDS, batch_size=0)
    assert set(children(os.getpid())) <= others


@pytest.mark.kills
def test_a_killed_program_leaves_no_process(tmp_path: Path) -> None:
    home = tmp_path / "memories"
    command = [sys.executable, "-c", PROGRAM, str(home), str(PATIENCE_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "stored\n"
        url = (home / "api-url").read_text().strip()
        key = (home / "api-key").read_text().strip()
        family = descendants(program.pid)
        assert len(family) > 5
        program.kill()
    until_gone(*family)
    with Ebbing(url, key, timeout=1) as client, pytest.raises(ServiceUnreachable):
        client.call("GET", "/v1/stats")
