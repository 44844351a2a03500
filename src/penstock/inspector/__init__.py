"""The web page of the gateway, and its read-only API. The API is internal: it belongs to the page."""
