"""The server's side of HTTP/1.1 and WebSocket connections. `channels.py` is what an application sees."""
