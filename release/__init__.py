"""Modules that a release runs: wheels for each machine, notices, bills of materials."""
