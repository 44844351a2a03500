"""OpenResponses over HTTP: the asynchronous client and its synchronous twin.

`config.py` says what can be set. `client.py` is the surface; `events.py` is one stream, across the
connections that it may take. Only `transport.py`, `answer.py` and `breaks.py` know aiohttp, which is imported
with the first request.
"""
