"""The user's own Caddy: its Caddyfile or JSON, with parameters, and patches of it."""
