"""Judgement: from windows to losses, from blocks to claims and verdicts.

Takes a record, or the blocks of a phase.
Gives figures, claims, checks and verdicts; nothing here draws or writes.
"""
