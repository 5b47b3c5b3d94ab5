"""Run the provider standalone until interrupted: `python -m tests.provider --port 8099`."""

from __future__ import annotations

import argparse
import sys
import threading
from contextlib import suppress

from tests.provider.server import provider

parser = argparse.ArgumentParser(prog="python -m tests.provider", description=__doc__)
parser.add_argument("--port", type=int, default=8099)
with provider(parser.parse_args().port) as fake, suppress(KeyboardInterrupt):
    sys.stdout.write(f"EBBING_OPENAI_BASE_URL={fake.url}\n")
    sys.stdout.flush()
    threading.Event().wait()
