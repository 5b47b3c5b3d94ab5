"""Celery's own command line on this application: `python -m workers worker …`, `python -m workers beat …`.

Celery's `--app` would look for `workers` in the current folder first, where somebody else's may lie.
"""

from __future__ import annotations

import sys

from workers.celery_app import celery

if __name__ == "__main__":
    if "beat" in sys.argv:
        celery.conf.include = ()  # it only names the tasks: to import what they need takes a second and some 30 MB
    celery.start(sys.argv[1:])
