"""Lint: rules that find plain mistakes in a server's configuration.

Takes a parsed configuration.
Gives findings with file, line and remedy.
"""
