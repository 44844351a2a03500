"""Sending a rendered request: targets, keys, connections, and what to try next when it fails."""
