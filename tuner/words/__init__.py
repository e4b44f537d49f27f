"""Wording of figures and durations, the same in every report and on the terminal.

Takes numbers with their units.
Gives short text.
"""
