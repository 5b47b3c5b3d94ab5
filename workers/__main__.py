"""Run Celery's command line on this application: `python -m workers worker …`, `python -m workers beat …`.

Celery's `--app` would first look for `workers` in the current folder, which may contain another package of that name.
"""

from __future__ import annotations

import sys

from app import logs
from workers.celery_app import celery

if __name__ == "__main__":
    logs.configure("beat" if "beat" in sys.argv else "worker")  # before Celery's own warnings
    if "beat" in sys.argv:
        celery.conf.include = ()  # beat only needs the task names; importing the tasks takes a second and some 30 MB
    celery.start(sys.argv[1:])
