"""The user's own server: its configuration read, changed where parameters stand, and patched.

Takes the user's files, here or on a host.
Gives a space bound to them, a server for the lab, and a minimal patch.
"""
