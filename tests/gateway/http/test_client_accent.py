"""Which event naming (accent) a client gets."""

from __future__ import annotations

import pytest

from tests.gateway.running import Running

BODY = {"model": "demo", "input": "say exactly: hello"}


@pytest.mark.parametrize(
    ("headers", "path", "accent"),
    [
        ({}, "", "openresponses"),
        ({"user-agent": "codex_exec/0.166.0 (Debian)"}, "", "openai"),
        ({"originator": "codex_vscode"}, "", "openai"),
        ({"user-agent": "OpenAI/Python 3.49.0"}, "", "openai"),
        ({"user-agent": "AsyncOpenAI/Python 3.49.0"}, "", "openai"),
        ({"user-agent": "GitHubCopilotChat/0.40"}, "", "copilot"),
        ({"user-agent": "OpenAI/Python 3.49.0", "x-penstock-accent": "openresponses"}, "", "openresponses"),
        ({"x-penstock-accent": "openai"}, "?accent=copilot", "copilot"),
    ],
)
def test_a_client_is_spoken_to_in_its_accent(
    penstock: Running, headers: dict[str, str], path: str, accent: str
) -> None:
    body = {"model": "demo", "input": "say exactly: x", "stream": True, "reasoning": {"effort": "low"}}
    reply = penstock.ask(body, f"/v1/responses{path}", headers=headers, accent=accent)
    spelling = {
        "openresponses": "response.reasoning.delta",
        "openai": "response.reasoning_text.delta",
        "copilot": "response.reasoning_summary_text.delta",
    }
    assert [name for name in spelling.values() if name in reply.types] == [spelling[accent]]


def test_an_accent_that_is_not_there_is_refused(penstock: Running) -> None:
    reply = penstock.ask(BODY, "/v1/responses?accent=texan")
    assert (reply.status, reply.error["param"]) == (400, "accent")
