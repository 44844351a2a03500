"""Clients for OpenResponses over HTTP, asynchronous and synchronous.

`config.py` has the settings and `client.py` the methods; `event_stream.py` reads one stream, over several
connections if needed. Connections come from `penstock.net`, which is imported with the first request.
"""
