"""Search: which configurations are measured next.

Takes the record of the trials so far.
Gives proposals from Optuna, and the schedule of looks at them.
"""
