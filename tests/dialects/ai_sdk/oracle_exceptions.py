"""Stream parts on which an oracle and the reader differ: in which aspects, and why."""

_NOT_JSON = "calls, finish: a call with incomplete JSON arguments fails the answer (invariant 10)"
_COPILOT = "chat-completions.github-copilot.vscode-copilot-chat."
_FLUSHED = "chat-completions.openrouter.ai-sdk-provider.should-"

_REASONS: dict[str, str] = {
    f"{_COPILOT}stream-containing-cot-summary-and-cot-id.13": _NOT_JSON,
    f"{_FLUSHED}emit-full-lifecycle-for-multiple-unsent-tool-calls-in-flush-path.29": _NOT_JSON,
    f"{_FLUSHED}emit-only-tool-input-end-in-flush-path-when-tool-call-was-partially-strea.22": _NOT_JSON,
    f"{_FLUSHED}emit-tool-input-end-in-flush-path-when-tool-call-was-partially-streamed-b.2": _NOT_JSON,
    f"{_FLUSHED}handle-mixed-paths-one-tool-completes-during-stream-another-goes-to-flush.30": _NOT_JSON,
}

EXCEPTIONS: dict[str, str] = {f"ai-sdk-parts/{file}.jsonl": reason for file, reason in _REASONS.items()}
