"""How good the instrument is, beside others, on this machine and in one run: docs/benchmarks.md."""
