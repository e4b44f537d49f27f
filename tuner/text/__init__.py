"""Servers' languages read: words, lines and blocks, and nothing of what they mean."""
