"""Definitions of studies and of published experiments.

Takes the YAML of `studies/` and the options of a command.
Gives a frozen definition, every option resolved.
"""
