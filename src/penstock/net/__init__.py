"""HTTP/1.1 connections: those to one server, with URLs, proxies, TLS, masking of secrets and network errors;
in `server`, those of clients.

`transport.py` sends requests and `answer.py` is a response. `connection.py` parses what arrives, `pool.py`
keeps idle connections, and `dialing.py` opens them. Both sides use `flow_control.py` and `tls.py`.
"""
