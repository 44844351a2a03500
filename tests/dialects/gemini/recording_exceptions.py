"""Where the oracles contradict our reading of Gemini, and why they are wrong to."""

_NUMBERS = "the oracle refuses finish reasons that are integers, and fails (quirk G2)"
_SERVER_TOOL = "the oracle lists what the vendor runs itself among the calls (quirk G9)"

_LANGCHAINGO = "gemini/google.langchaingo.googleai-testgoogleai"
_PYDANTIC = "gemini/google.pydantic-ai.test-google-test-google-model"

EXCEPTIONS: dict[str, str] = {
    f"{_LANGCHAINGO}generatecontentwithmultiplemessages.0.array.json": _NUMBERS,
    f"{_LANGCHAINGO}toolcallresponse.1.array.json": _NUMBERS,
    "gemini/vertex.openinference.test-instrumentor-test-gemini-token-counts-streaming.0.array.json": _NUMBERS,
    "gemini/google.llama-stack.ca5df482d089.0.jsonl": (
        "dumped SDK objects in snake_case, of which the oracle reads nothing"
    ),
    "gemini/google.openinference.test-instrumentation-test-validate-token-counts-stream.0.sse": _SERVER_TOOL,
    f"{_PYDANTIC}-file-search-tool-stream.3.sse": _SERVER_TOOL,
    f"{_PYDANTIC}-file-search-grounding-gemini-3-true.3.sse": _SERVER_TOOL,
}
