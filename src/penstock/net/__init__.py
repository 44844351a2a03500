"""HTTP connections to one server: URLs, proxies, TLS, masking of secrets, network errors.

`transport.py` sends requests and `answer.py` reads the responses. Only these two and `network_errors.py`
import aiohttp; a program that sends nothing does not.
"""
