"""HTTP and WebSocket connections of clients: reading requests, checking access, responding."""
