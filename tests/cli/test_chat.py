"""`penstock chat` in a pipe: a process of its own, a scripted server, and what goes where."""

from __future__ import annotations

import re
import socket
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import UsageError
from penstock.cli.chat.images import mentioned_images
from penstock.cli.chat.transcript import Transcript
from penstock.cli.chat.usage import footer
from penstock.dialects.presets import PRESETS
from penstock.models.enrich import enrich
from penstock.models.info import ModelFacts
from penstock.parts.parts import ChatMessage, Role, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from penstock.provider.tracker import Tokens, TrackedRequest
from tests.cli import streams
from tests.cli.chats import MODEL, TOOLS, called, listed, refused, said, thought
from tests.cli.running import Result, penstock, start
from tests.client.server import LAST_CHUNK, Script, Served, chunk, gate, head, send, served, sse

KEY = "sk-test-0123456789"
PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def ask(endpoint: Served, *arguments: str, stdin: str = "hi\n", **changes: str) -> Result:
    """Ask with a key in the environment, which must never be seen again."""
    given = ("--base-url", f"{endpoint.url}/v1", "--api-key-env", "TEST_KEY", *arguments)
    result = penstock("chat", *given, stdin=stdin.encode(), TEST_KEY=KEY, **changes)
    assert KEY not in result.stdout + result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    return result


def bodies(endpoint: Served) -> list[Any]:
    return [asked.json for asked in endpoint.asked if asked.method == "POST"]


def test_the_answer_and_nothing_else_is_printed() -> None:
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


def test_a_tool_runs_with_yes_and_its_result_goes_back(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    with served(listed(), called("Oslo", "Let me look."), said("3 degrees")) as endpoint:
        result = ask(endpoint, "--tools", str(tmp_path / "tools.py"), "--yes")
    assert (result.returncode, result.stdout) == (0, "Let me look.\n3 degrees\n")
    assert 'weather(city="Oslo") -> Oslo: 3 degrees, rain for 1 day' in result.stderr
    assert "looking out of the window" in result.stderr  # what a tool prints is not the answer
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


def test_without_yes_a_tool_does_not_run_and_the_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    with served(listed(), called(), said("Then not.")) as endpoint:
        result = ask(endpoint, "--tools", str(tmp_path / "tools.py"))
    assert (result.returncode, result.stdout) == (0, "Then not.\n")
    assert result.stderr == 'penstock: weather(city="Oslo") was not run: use --yes to allow it\n'
    assert "did not allow" in bodies(endpoint)[1]["input"][-1]["output"]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (
            refused(401, f"Incorrect API key provided: {KEY}", "invalid_api_key"),
            "the endpoint rejected the key in TEST_KEY",
        ),
        (
            refused(
                400,
                "This model's maximum context length is 128000 tokens. However, your messages resulted in "
                "130512 tokens.",
                "context_length_exceeded",
            ),
            f"the conversation is too long: it has 130,512 tokens, and {MODEL} accepts 128,000",
        ),
        (
            refused(429, "Rate limit reached", "rate_limit_exceeded", retry_after="900"),
            "too many requests, wait 15 min and try again",
        ),
        (refused(429, "You exceeded your current quota", "insufficient_quota"), "the quota is used up"),
        (refused(404, "no such model", "model_not_found"), "`penstock models` lists the models"),
        (refused(403, "not for you", "permission_denied"), "the key in TEST_KEY does not have permission"),
    ],
)
def test_a_failure_is_one_sentence_that_says_what_to_do(script: Script, told: str) -> None:
    with served(listed(), script) as endpoint:
        result = ask(endpoint, "--model", MODEL)
    assert (result.returncode, result.stdout) == (1, "")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_wrong_key_is_told_also_when_the_models_are_listed() -> None:
    with served(refused(401, "no", "invalid_api_key")) as endpoint:
        result = ask(endpoint)
    assert result.returncode == 1
    assert "the endpoint rejected the key in TEST_KEY" in result.stderr


def test_an_endpoint_without_a_list_answers_all_the_same() -> None:
    with served(refused(404, "nothing here"), said("yes")) as endpoint:
        assert ask(endpoint, "--model", "m").stdout == "yes\n"


def test_another_attempt_is_told() -> None:
    with served(listed(), refused(503, "busy", "overloaded"), said("Now.")) as endpoint:
        result = ask(endpoint)
    assert (result.returncode, result.stdout) == (0, "Now.\n")
    assert re.fullmatch(r"penstock: attempt 1 failed, retrying in 0\.\d s: busy\n", result.stderr)


def test_a_stream_that_breaks_keeps_what_came() -> None:
    begun = sse(streams.hello(["Half of", " it"])[:6])
    with served(listed(), [send(head() + begun)], *[[send(b"")]] * 3) as endpoint:
        result = ask(endpoint)
    assert (result.returncode, result.stdout) == (1, "Half of it\n")
    assert result.stderr


def test_the_model_is_the_only_one_that_is_listed() -> None:
    with served(listed("just-one"), said("ok")) as endpoint:
        assert ask(endpoint).returncode == 0
    assert bodies(endpoint)[0]["model"] == "just-one"
    with served(listed(*(f"m{number}" for number in range(10)))) as endpoint:
        result = ask(endpoint)
    assert result.returncode == 2
    assert "choose a model with --model NAME: m0, m1, " in result.stderr
    assert "and 2 more" in result.stderr
    with served(listed({"id": ""})) as endpoint:
        assert "lists no models" in ask(endpoint).stderr


def test_nothing_listens_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        result = penstock("chat", "--base-url", url, "--model", "m", stdin=b"hi")
    assert result.returncode == 2
    assert "connection refused. Is the server running" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--preset", "anthropic"], "penstock serve --preset anthropic"),
        (["--preset", "opnai"], "openai"),
        (["--preset", "openai"], "the variable OPENAI_API_KEY is not set"),
        (["--preset", "azure"], "add your URL: --base-url https://{resource}.openai.azure.com"),
        (["--preset", "openai", "--base-url", "http://x"], "name two endpoints"),
        (["--base-url", "ftp://x"], "a URL starts with http"),
        (["--base-url", "http://me:secret@x"], "use --api-key-env NAME instead"),
        (["--api-key-env", "NOT_SET"], "the variable NOT_SET is not set"),
        (["--override", "nonsense"], "--override: an override must have the form"),
        (["--image", "nowhere.png"], "cannot read nowhere.png"),
        (["--load", "nowhere.jsonl"], "--load: cannot read nowhere.jsonl"),
        (["--tools", "nowhere.py"], "there is no file nowhere.py"),
        (["Look at @nowhere.png"], "cannot read nowhere.png"),
    ],
)
def test_wrong_options_are_told_before_anything_is_asked(arguments: list[str], told: str) -> None:
    result = penstock("chat", *arguments, stdin=b"hi", OPENAI_API_KEY="", ANTHROPIC_API_KEY="k")
    assert (result.returncode, result.stdout) == (2, "")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_nothing_to_ask_is_told() -> None:
    result = penstock("chat", stdin=b" \n")
    assert result.returncode == 2
    assert "there is no question" in result.stderr


@pytest.mark.e2e
def test_a_pipe_that_is_closed_ends_it_quietly() -> None:
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


def test_the_answer_is_printed_while_it_comes() -> None:
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


def test_a_saved_conversation_goes_on(tmp_path: Path) -> None:
    conversation = Transcript("Be brief.")
    conversation.add(
        [
            ChatMessage(Role.USER, [TextPart("weather?")]),
            ChatMessage(
                Role.ASSISTANT, [ThinkingPart("hm", "rs_1"), ToolCallPart("c1", "weather", {"city": "Oslo"})]
            ),
            ChatMessage(Role.USER, [ToolResultPart("c1", [TextPart("rain")])]),
            ChatMessage(Role.ASSISTANT, [TextPart("Rain.")]),
        ]
    )
    file = tmp_path / "saved.jsonl"
    assert conversation.save(str(file)) == 5
    loaded = Transcript()
    loaded.load(str(file))
    assert loaded.messages == conversation.messages
    assert len(loaded.exchanges) == 1
    with served(listed(), said("Tomorrow too.")) as endpoint:
        assert ask(endpoint, "--load", str(file), stdin="and tomorrow?").returncode == 0
    kinds = [item["type"] for item in bodies(endpoint)[0]["input"]]
    assert kinds == ["message", "message", "function_call", "function_call_output", "message", "message"]
    assert loaded.undo() == "weather?"
    assert loaded.undo() is None


def test_a_file_of_something_else_is_neither_overwritten_nor_loaded(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text('{"role": 1, "content": "a"}\n{"role": 1}\n')
    conversation = Transcript()
    with pytest.raises(UsageError, match="exists already"):
        conversation.save(str(file))
    with pytest.raises(UsageError, match=r"notes\.txt:2: content: expected an array of parts"):
        conversation.load(str(file))
    with pytest.raises(UsageError, match="cannot write"):
        conversation.save(str(tmp_path / "no" / "where"))


def test_images_are_mentioned_by_their_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b c.PNG"):
        (tmp_path / name).write_bytes(PIXEL)
    (tmp_path / "wrong.png").write_bytes(b"text")
    text, images = mentioned_images('Compare @a.png, @"b c.PNG" and ask @someone or me@a.png.')
    assert text == "Compare a.png, b c.PNG and ask @someone or me@a.png."
    assert [image.mime for image in images] == ["image/png", "image/png"]
    with pytest.raises(UsageError, match=r"wrong\.png is not a PNG"):
        mentioned_images("@wrong.png")


def test_vendors_that_also_speak_responses_are_presets_that_speak_something_else() -> None:
    assert {row.dialect for row in PRESETS.values() if row.also_responses} == {"chat"}


def test_the_footer_tells_what_was_used() -> None:
    info = enrich(ModelFacts(id="m", window=200_000, max_output=100_000))
    used = TrackedRequest("a", "m", 90, 100_000, "completed", Tokens(25_000, 300, 20_000, 200), False, 0.0123)
    assert footer([used], info) == (
        "in 25,000 (20,000 cached) · out 300 (200 reasoning) · $0.0123 · context ██░░░░░░░░ 25%"
    )
    guessed = TrackedRequest("b", "m", 90, 100_000, "cancelled", Tokens(90, 5), True, None)
    assert footer([guessed], enrich(ModelFacts(id="x")), unicode=False) == (
        "in ~90 | out ~5 | context .......... ~<1%"
    )
    assert footer([used, guessed], info).startswith("in ~25,090 (20,000 cached) · out ~305")
    assert footer([], info) == ""
