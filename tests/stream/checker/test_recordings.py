"""Recorded streams of real vendors in tolerant mode: only their known faults are reported.

A quirk is a row of docs/requirements.md.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from penstock.sse import Decoder
from penstock.stream.checker import StreamChecker
from penstock.stream.checker.rules import RULES, Violation

RECORDINGS = Path(__file__).parents[4] / "shared" / "recordings"
FOLDER = RECORDINGS / "openai-responses"

pytestmark = pytest.mark.skipif(
    not FOLDER.exists(), reason="the recordings (../shared/recordings) are not available"
)

FILES = sorted(path.name for path in FOLDER.glob("*")) if FOLDER.exists() else []

TRANSPORTS = {".sse": "sse", ".jsonl": "ndjson"}


@cache
def frames(name: str) -> tuple[tuple[str | None, str], ...]:
    """A recording as frames: name and data."""
    path = FOLDER / name
    if path.suffix == ".jsonl":
        lines = path.read_text(encoding="utf-8").splitlines()
        return tuple((None, line) for line in lines if line.strip())
    decoder = Decoder()
    return tuple((frame.event, frame.data) for frame in [*decoder.feed(path.read_bytes()), *decoder.end()])


def check(name: str, *, tolerant: bool = True, cut: int | None = None) -> list[Violation]:
    transport = TRANSPORTS[Path(name).suffix]
    checker = StreamChecker(accent="openai", transport=transport, tolerant=tolerant)
    found = [fault for frame in frames(name)[:cut] for fault in checker.feed_frame(*frame)]
    return found + checker.end()


@cache
def rules(name: str, *, tolerant: bool = True) -> frozenset[str]:
    return frozenset(fault.rule for fault in check(name, tolerant=tolerant))


@cache
def manifest() -> dict[str, dict[str, str]]:
    entries = json.loads((RECORDINGS / "manifest.json").read_text(encoding="utf-8"))
    return {Path(entry["file"]).name: entry for entry in entries if entry["dialect"] == "openai-responses"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("tolerant", [True, False])
def test_a_recording_is_checked_without_errors(name: str, tolerant: bool) -> None:
    found = check(name, tolerant=tolerant)
    assert all(fault.rule in RULES for fault in found)
    assert all(0 <= fault.sequence <= len(frames(name)) for fault in found)
    assert not tolerant or all(RULES[fault.rule].tolerant for fault in found)


# OpenAI's own recordings that break a rule, and why.
KNOWN = {
    "openai.ai.openai-openai-client-tool-search-1.0.jsonl": {"item.changed"},  # the call id is provisional
    "openai.ai.openai-openai-phase-1.0.jsonl": {  # shortened by hand: deltas and an item were cut out
        "sequence.step",
        "part.text-differs",
        "item.index-order",
    },
    "openai.opencode.session-native-openai-oauth-tool-loop.0.sse": {"terminal.output"},  # quirk R3
    "openai.opencode.session-native-openai-oauth-tool-loop.1.sse": {"terminal.output"},  # quirk R3
}


def test_streams_of_openai_are_lawful_with_known_exceptions() -> None:
    recorded = [
        name
        for name in FILES
        if manifest()[name]["provider"] == "openai" and manifest()[name]["tier"] == "recorded"
    ]
    assert len(recorded) > 50
    assert {name: rules(name) for name in recorded if rules(name)} == KNOWN


OTHERS = {
    "github-copilot.ai.openai-github-copilot-id-rotation-1.0.jsonl": {
        "lifecycle.response-id",
        "item.id-changed",
    },
    "lmstudio.ai.open-responses-lmstudio-tool-call-1.0.jsonl": {"arguments.no-delta"},
    "lmstudio.ai.open-responses-lmstudio-tool-call-2.0.jsonl": {"arguments.no-delta"},
    "openrouter.pydantic-ai.test-openai-responses-test-openai-responses-raw-cot-stream-openrouter.0.sse": {
        "item.id-changed"  # the reasoning item has another id in the terminal snapshot
    },
}


def test_streams_of_other_vendors_are_lawful_with_known_exceptions() -> None:
    recorded = [
        name
        for name in FILES
        if manifest()[name]["provider"] != "openai" and manifest()[name]["tier"] == "recorded"
    ]
    assert len(recorded) > 20
    assert {name: rules(name) for name in recorded if rules(name)} == OTHERS


# --- quirks


def test_a_missing_done_mark_is_tolerated() -> None:  # quirk R1
    without = [name for name in FILES if name.endswith(".sse") and frames(name)[-1][1] != "[DONE]"]
    assert len(without) > 50
    assert not any("transport.done-missing" in rules(name) for name in without)
    assert all("transport.done-missing" in rules(name, tolerant=False) for name in without)


def test_changing_ids_are_reported_once_per_item() -> None:  # quirk R2
    found = check("github-copilot.ai.openai-github-copilot-id-rotation-1.0.jsonl")
    assert Counter(fault.rule for fault in found) == {"lifecycle.response-id": 1, "item.id-changed": 2}


@pytest.mark.parametrize("turn", [0, 1])
def test_an_empty_output_at_the_end_is_reported(turn: int) -> None:  # quirk R3
    found = check(f"openai.opencode.session-native-openai-oauth-tool-loop.{turn}.sse")
    assert [fault.rule for fault in found] == ["terminal.output"]


def test_other_encrypted_content_at_the_end_is_tolerated() -> None:  # quirk R4
    name = "openai.opencode.openai-responses-openai-responses-gpt-5-5-reasoning.0.sse"
    assert rules(name) == set()
    assert "terminal.output-differs" in rules(name, tolerant=False)


@pytest.mark.parametrize("number", [1, 2])
def test_arguments_without_a_delta_are_reported(number: int) -> None:  # quirk R5
    found = check(f"lmstudio.ai.open-responses-lmstudio-tool-call-{number}.0.jsonl")
    assert [fault.rule for fault in found] == ["arguments.no-delta"]


def test_interleaved_items_are_lawful() -> None:  # quirk R6
    assert rules("xai.ai.xai-xai-x-search-tool.0.jsonl") == set()


def test_a_hosted_tool_that_is_done_as_searching_is_tolerated() -> None:  # quirk R7
    name = "azure.ai.azure-azure-web-search-preview-tool-1.0.jsonl"
    assert rules(name) == set()
    assert "item.done-status" in rules(name, tolerant=False)


@pytest.mark.parametrize("turn", [0, 1])
def test_pings_after_the_end_are_tolerated(turn: int) -> None:  # quirk R8
    name = f"opencode-zen.opencode.session-native-zen-tool-loop.{turn}.sse"
    assert rules(name) == set()
    assert "terminal.after" in rules(name, tolerant=False)


def test_missing_numbers_and_names_are_tolerated() -> None:  # quirk R8
    name = "openai.llm-openai-plugin.test-openai-test-async-model.0.sse"
    assert rules(name) == set()
    assert "sequence.number" in rules(name, tolerant=False)
    nameless = [name for name in FILES if name.endswith(".sse") and frames(name)[0][0] is None]
    assert nameless
    assert not any("transport.event-name-missing" in rules(name) for name in nameless)


def test_a_resumed_stream_is_accepted() -> None:  # quirk R9
    name = "openai.pydantic-ai.test-openai-responses-test-background-mode-streaming-starting-after-vcr.1.sse"
    assert json.loads(frames(name)[0][1])["type"] == "response.queued"
    assert rules(name) == set()
    assert {"lifecycle.created-first", "sequence.start"} <= rules(name, tolerant=False)


def test_raw_reasoning_is_read_under_openai_s_name() -> None:  # quirk R10
    raw = [name for name in FILES if any("response.reasoning_text.delta" in data for _, data in frames(name))]
    assert len(raw) >= 3
    for name in raw:
        assert not {"part.text-differs", "item.content-differs", "part.added-missing"} & rules(name)


@pytest.mark.parametrize("kind", ["rate-limited", "unknown-error-responses"])
def test_an_error_is_followed_by_response_failed(kind: str) -> None:  # quirk R12
    assert rules(f"openai.prism.openai-stream-{kind}-1.0.sse") == set()


@pytest.mark.parametrize(
    "name",
    [
        "openai-codex.langchain.openai-test-codex-custom-tool.0.sse",
        "openai.ai.openai-openai-apply-patch-tool-1.0.jsonl",
        "openai.ai.openai-openai-apply-patch-tool-delete-1.0.jsonl",
        "openai.ai.openai-openai-shell-tool-1.0.jsonl",
        "openai.ai.openai-openai-local-shell-tool-1.0.jsonl",
        "openai.ai.openai-openai-shell-skills-1.0.jsonl",
        "openai.ai.openai-openai-mcp-tool-approval-1.0.jsonl",
        "openai.ai.openai-openai-code-interpreter-tool-1.0.jsonl",
    ],
)
def test_tools_of_every_kind_are_lawful(name: str) -> None:  # quirk R13 to quirk R16
    assert rules(name) == set()


# --- truncated recordings


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_recording_has_no_terminal_event(name: str) -> None:
    for cut in {1, len(frames(name)) // 2}:
        types = [json.loads(data).get("type") for _, data in frames(name)[:cut] if data != "[DONE]"]
        if not {"response.completed", "response.failed", "response.incomplete"} & set(types):
            ends = {"terminal.error-alone" if types[-1] == "error" else "terminal.missing"}
            assert ends <= {fault.rule for fault in check(name, cut=cut)}
