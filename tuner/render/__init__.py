"""Rendering: template and configuration become the text of a server's file.

Takes a template of `templates/`, a configuration and the place of the instance.
Gives text, quoted by the server's own rules.
"""
