"""Phases of a study: calibrate, search, confirm, ablate, compare.

Takes a bench of ports and what the phases before found.
Gives blocks in the record; each phase resumes from there.
"""
