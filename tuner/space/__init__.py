"""Parameter spaces: parameters, conditions, bounds, and settings that are never searched.

Takes `spaces/*.yaml` and the facts of a machine.
Gives a `Space` of numbers, and the `Configuration`s in it.
"""
