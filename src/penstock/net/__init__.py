"""HTTP connections to one server: URLs, proxies, TLS, masking of secrets, network errors.

`transport.py` sends requests and `answer.py` reads what comes back. Only these two and `network_errors.py`
know aiohttp; a program that sends nothing does not import it.
"""
