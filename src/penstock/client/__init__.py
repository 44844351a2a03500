"""OpenResponses over HTTP: the asynchronous client and its synchronous twin.

`config.py` has what can be set. `client.py` is the surface; `event_stream.py` is one stream, across the
connections that it may take. Connections come from `penstock.net`, which is imported with the first request.
"""
