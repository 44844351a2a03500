"""Recordings of Ollama that we read differently from the oracles: none, they do not support it."""

EXCEPTIONS: dict[str, str] = {}
