"""Recordings of Gemini that we read differently from the oracles, and why."""

_NUMBERS = "the oracle rejects integer finish reasons and fails (quirk G2)"
_SERVER_TOOL = "the oracle lists server tools among the calls (quirk G9)"

_LANGCHAINGO = "gemini/google.langchaingo.googleai-testgoogleai"
_PYDANTIC = "gemini/google.pydantic-ai.test-google-test-google-model"

EXCEPTIONS: dict[str, str] = {
    f"{_LANGCHAINGO}generatecontentwithmultiplemessages.0.array.json": _NUMBERS,
    f"{_LANGCHAINGO}toolcallresponse.1.array.json": _NUMBERS,
    "gemini/vertex.openinference.test-instrumentor-test-gemini-token-counts-streaming.0.array.json": _NUMBERS,
    "gemini/google.llama-stack.ca5df482d089.0.jsonl": (
        "dumped SDK objects in snake_case, which the oracle does not read"
    ),
    "gemini/google.openinference.test-instrumentation-test-validate-token-counts-stream.0.sse": _SERVER_TOOL,
    f"{_PYDANTIC}-file-search-tool-stream.3.sse": _SERVER_TOOL,
    f"{_PYDANTIC}-file-search-grounding-gemini-3-true.3.sse": _SERVER_TOOL,
}
