"""Readers of text: YAML with positions, expressions, access logs, server configurations.

Takes text and the name of its source.
Gives plain data that knows its file and line, or one error that names them.
"""
