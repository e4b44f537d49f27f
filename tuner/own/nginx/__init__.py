"""The user's own Nginx: its files, with parameters, and patches of them."""
