"""The user's own Nginx: its files read, changed where parameters stand, and patched."""
