"""Facts of a machine: its cores, its kernel, its server, and how its cores are split.

Takes nothing; adapters fill in the facts.
Gives frozen data to every room above.
"""
