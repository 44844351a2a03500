"""Penstock: any model's stream, to any client, as one lawful OpenResponses stream."""

__version__ = "0.1.0"
