"""Benchmarks of the instrument against others, on one machine in one run: docs/benchmarks.md."""

import os

# As in the commands (tuner/cli/__init__.py), and before a benchmark imports NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
