"""The user's own Apache: its files, and the settings that `tuner apply` sets in them."""
