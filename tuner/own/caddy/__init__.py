"""The user's own Caddy: its Caddyfile or JSON read, changed where parameters stand, and patched."""
