"""Sending a rendered request: targets, keys, connections, and what to try next when it fails.

Start at `upstream`: what the gateway sees of an upstream, whether it is across the network or in the process.
"""
