"""Sends rendered requests: targets, keys, connections, retries and fallback."""
