"""The user's own server: its configuration as a space of parameters, and patches of it.

Takes the user's files, here or on a host.
Gives a space bound to them, a server for the lab, and a minimal patch.
"""
