"""Ebbing, the service. This package never imports `workers`."""

import os

# OpenBLAS starts a spinning thread per core. On the small matrices of a search, this costs several times the actual
# computation. The variable is read once, when NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
