"""An editor's Language Model API: convert events to parts, and messages to a request."""
