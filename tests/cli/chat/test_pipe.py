"""`penstock chat` in a pipe, as a process, against a scripted server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.chat.transcript import Transcript
from penstock.parts.parts import ChatMessage, Role, TextPart, ToolCallPart, ToolResultPart
from tests.cli import streams
from tests.cli.chat.scripts import MODEL, PIXEL, TOOLS, called, listed, refused, said, thought
from tests.cli.running import Result, penstock, start
from tests.client.server import LAST_CHUNK, Served, chunk, gate, head, send, served, sse

KEY = "sk-test-0123456789"


def ask(endpoint: Served, *arguments: str, stdin: str = "hi\n", **changes: str) -> Result:
    """Ask with a key in the environment, which must not be printed."""
    given = ("--base-url", f"{endpoint.url}/v1", "--api-key-env", "TEST_KEY", *arguments)
    result = penstock("chat", *given, stdin=stdin.encode(), TEST_KEY=KEY, **changes)
    assert KEY not in result.stdout + result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    return result


def bodies(endpoint: Served) -> list[Any]:
    return [asked.json for asked in endpoint.asked if asked.method == "POST"]


def test_only_the_answer_is_printed() -> None:
    with served(listed(), said("**Hello**, ", "you.")) as endpoint:
        result = ask(endpoint, "--model", MODEL)
    assert (result.returncode, result.stdout, result.stderr) == (0, "**Hello**, you.\n", "")
    (body,) = bodies(endpoint)
    assert body["model"] == MODEL
    assert body["stream"] is True
    assert body["prompt_cache_key"].startswith("chat-")
    assert body["input"] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    ]
    assert endpoint.asked[-1].headers["authorization"] == f"Bearer {KEY}"


def test_options_become_part_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PIXEL)
    with served(listed(), said("ok")) as endpoint:
        options = ("--system", "Be brief.", "--effort", "low", "--image", str(tmp_path / "a.png"), "What?")
        result = ask(endpoint, *options, stdin="from the pipe")
    assert (result.returncode, result.stdout) == (0, "ok\n")
    (body,) = bodies(endpoint)
    system, user = body["input"]
    assert (system["role"], system["content"][0]["text"]) == ("system", "Be brief.")
    image, text = user["content"]
    assert image["image_url"].startswith("data:image/png;base64,iVBOR")
    assert text["text"] == "What?\n\nfrom the pipe"
    assert body["reasoning"]["effort"] == "low"


def test_thinking_is_not_part_of_the_answer() -> None:
    with served(listed(), thought(["Hm, ", "what is it"], ["42"])) as endpoint:
        assert ask(endpoint).stdout == "42\n"


def test_a_tool_runs_with_yes_and_its_result_is_sent(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    with served(listed(), called("Oslo", "Let me look."), said("3 degrees")) as endpoint:
        result = ask(endpoint, "--tools", str(tmp_path / "tools.py"), "--yes")
    assert (result.returncode, result.stdout) == (0, "Let me look.\n3 degrees\n")
    assert 'weather(city="Oslo") -> Oslo: 3 degrees, rain for 1 day' in result.stderr
    assert "looking out of the window" in result.stderr  # not part of the answer
    first, second = bodies(endpoint)
    (tool,) = first["tools"]
    assert (tool["type"], tool["name"]) == ("function", "weather")
    assert tool["parameters"]["required"] == ["city"]
    assert second["tools"] == first["tools"]
    assert second["prompt_cache_key"] == first["prompt_cache_key"]
    user, message, call, output = second["input"]
    assert [user] == first["input"]
    assert message["content"][0]["text"] == "Let me look."
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", "weather", '{"city":"Oslo"}')
    assert output == {
        "type": "function_call_output",
        "call_id": call["call_id"],
        "output": "Oslo: 3 degrees, rain for 1 day",
    }


def test_without_yes_a_tool_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    with served(listed(), called(), said("Then not.")) as endpoint:
        result = ask(endpoint, "--tools", str(tmp_path / "tools.py"))
    assert (result.returncode, result.stdout) == (0, "Then not.\n")
    assert result.stderr == 'penstock: weather(city="Oslo") was not run: use --yes to allow it\n'
    assert "did not allow" in bodies(endpoint)[1]["input"][-1]["output"]


def test_a_rejected_key_is_reported_when_models_are_listed() -> None:
    with served(refused(401, "no", "invalid_api_key")) as endpoint:
        result = ask(endpoint)
    assert result.returncode == 1
    assert "the endpoint rejected the key in TEST_KEY" in result.stderr


def test_a_retry_is_reported() -> None:
    with served(listed(), refused(503, "busy", "overloaded"), said("Now.")) as endpoint:
        result = ask(endpoint)
    assert (result.returncode, result.stdout) == (0, "Now.\n")
    assert re.fullmatch(r"penstock: attempt 1 failed, retrying in 0\.\d s: busy\n", result.stderr)


def test_the_start_of_a_broken_answer_is_printed() -> None:
    begun = sse(streams.hello(["Half of", " it"])[:6])
    with served(listed(), [send(head() + begun)], *[[send(b"")]] * 3) as endpoint:
        result = ask(endpoint)
    assert (result.returncode, result.stdout) == (1, "Half of it\n")
    assert result.stderr


def test_an_empty_question_is_refused() -> None:
    result = penstock("chat", stdin=b" \n")
    assert result.returncode == 2
    assert "there is no question" in result.stderr


@pytest.mark.e2e
def test_a_closed_pipe_ends_the_command_without_a_message() -> None:
    texts = [f"line {number}\n" for number in range(20_000)]
    with served(listed(), said(*texts)) as endpoint:
        process = start("chat", "--base-url", endpoint.url, "hi")
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.close()
        assert process.stdout.readline() == b"line 0\n"
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""
        process.stderr.close()


def test_the_answer_is_printed_as_it_arrives() -> None:
    events = streams.hello(["first\n", "last\n"])
    script = [send(head(transfer_encoding="chunked") + chunk(sse(events[:5]))), gate]
    script.append(send(chunk(sse(events[5:], done=True)) + LAST_CHUNK))
    with served(listed(), script) as endpoint:
        process = start("chat", "--base-url", endpoint.url, "hi")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        assert process.stdout.readline() == b"first\n"
        endpoint.release()
        assert process.stdout.read() == b"last\n"
        assert process.wait(30) == 0
        process.stdout.close()
        assert process.stderr is not None
        process.stderr.close()


def test_a_loaded_conversation_is_sent_with_the_question(tmp_path: Path) -> None:
    saved = Transcript("Be brief.")
    call = ToolCallPart("c1", "weather", {"city": "Oslo"})
    saved.add(
        [
            ChatMessage(Role.USER, [TextPart("weather?")]),
            ChatMessage(Role.ASSISTANT, [call]),
            ChatMessage(Role.USER, [ToolResultPart("c1", [TextPart("rain")])]),
            ChatMessage(Role.ASSISTANT, [TextPart("Rain.")]),
        ]
    )
    file = str(tmp_path / "saved.jsonl")
    saved.save(file)
    with served(listed(), said("Tomorrow too.")) as endpoint:
        assert ask(endpoint, "--load", file, stdin="and tomorrow?").returncode == 0
    kinds = [item["type"] for item in bodies(endpoint)[0]["input"]]
    assert kinds == ["message", "message", "function_call", "function_call_output", "message", "message"]
