"""The Python interface: studies as data, for notebooks and scripts.

``tuner`` itself names its functions and classes.
"""
