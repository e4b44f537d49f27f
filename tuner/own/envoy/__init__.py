"""The user's own Envoy: its file, and the settings that `tuner apply` sets in it."""
