"""The user's own HAProxy: its configuration read, tuned in the lab, and patched."""
