"""HTTP and WebSocket connections of clients: reading a request, checking access, answering."""
