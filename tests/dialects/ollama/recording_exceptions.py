"""Where the oracles contradict our reading of Ollama: nowhere, they do not know it."""

EXCEPTIONS: dict[str, str] = {}
