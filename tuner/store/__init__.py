"""The store: a study's record in an Optuna storage, for one host or several.

Takes windows, blocks and trials as they end.
Gives the whole record back as plain data.
"""
