"""Finds the best configuration of a web server for a workload, and proves that it is better."""

__version__ = "0.1.0"
