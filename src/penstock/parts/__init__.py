"""The Language Model API of an editor: events to parts, and messages to a request."""
