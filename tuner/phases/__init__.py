"""Phases of a study: calibrate, search, confirm, ablate, compare.

Takes a bench of ports and the results of earlier phases.
Gives blocks in the record; each phase resumes from there.
"""
