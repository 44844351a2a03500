"""Strict, scripted upstreams: one per API format, on a shared base."""
