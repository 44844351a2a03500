"""HTTP/1.1 connections to one server: URLs, proxies, TLS, masking of secrets, network errors.

`transport.py` sends requests and `answer.py` is a response. `connection.py` parses what arrives, `pool.py`
keeps idle connections, and `dialing.py` opens them.
"""
