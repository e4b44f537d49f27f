"""Benchmarks of the instrument against others, on one machine in one run: docs/benchmarks.md."""
