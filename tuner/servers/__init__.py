"""Servers: how each is found, validated, started and proved live.

Takes a program and a configuration's text.
Gives its version, its refusals and the proof that it runs.
"""
