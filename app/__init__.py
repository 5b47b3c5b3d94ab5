"""Ebbing: the service. Knows nothing of `workers`."""

import os

# NumPy's BLAS starts a thread for each core, and those wait for one another by spinning: on the small matrices of a
# search they cost several times what they compute. Read once, when NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
