"""The user's own server: its configuration read, changed where parameters stand, and patched."""
