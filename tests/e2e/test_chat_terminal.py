"""`penstock chat` on a real terminal (tmux)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli import streams
from tests.cli.chat.scripts import MODEL, TOOLS, called, listed, refused, said, thought
from tests.cli.running import COMMAND
from tests.client.server import Script, Served, chunk, gate, head, send, served, sse, stall
from tests.e2e.tmux import TmuxTerminal, has_tmux

pytestmark = [
    pytest.mark.terminal,
    pytest.mark.skipif(not has_tmux(), reason="tmux is not installed"),
]

PRICED = {
    "id": MODEL,
    "context_length": 1000,
    "max_output_tokens": 500,
    "pricing": {"prompt": "0.0003", "completion": "0.0006"},
}


def chat(endpoint: Served, *arguments: str, **changes: str) -> TmuxTerminal:
    return TmuxTerminal(COMMAND, "chat", "--base-url", f"{endpoint.url}/v1", *arguments, changes=changes)


def never_ending(*texts: str) -> Script:
    """Script an answer that begins and never ends."""
    begun = sse(streams.hello([*texts])[: 4 + len(texts)])
    return [send(head(transfer_encoding="chunked") + chunk(begun)), stall]


def test_a_conversation_with_a_tool_that_is_confirmed(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    scripts = [
        called("Oslo", "Let me look."),
        said("It is **3** degrees."),
        called("Bergen"),
        said("Rain."),
        called(),
    ]
    with (
        served(listed(PRICED), *scripts, said("Still rain.")) as endpoint,
        chat(endpoint, "--tools", str(tmp_path / "tools.py")) as terminal,
    ):
        terminal.wait_for_prompt()
        terminal.type("How is the weather?")
        terminal.wait_for("run it?")
        terminal.type("y")
        screen = terminal.wait_for_prompt()
        assert re.search(
            r'Let me look\.\n→ weather\(city="Oslo"\)\n  run it\?.* y\nlooking out of the window\n'
            r"← weather: Oslo: 3 degrees, rain for 1 day\nIt is 3 degrees\.\n"
            r"in 18 · out 24 · \$0\.0198 · context █░{9} 2%\n",
            screen,
        )
        terminal.type("And in Bergen?")
        terminal.wait_for(lambda screen: screen.count("run it?") == 2)
        terminal.type("a")
        terminal.wait_for("Rain.")
        terminal.wait_for_prompt()
        terminal.type("And now?")
        screen = terminal.wait_for("Still rain.")
        assert screen.count("run it?") == 2  # "always" was remembered
        terminal.wait_for_prompt()
        terminal.type("/quit")
        terminal.wait_for("[ended with 0]")
    outputs = [item["output"] for item in endpoint.asked[-1].json["input"] if "output" in item]
    assert [output.partition(":")[0] for output in outputs] == ["Oslo", "Bergen", "Oslo"]


def test_a_tool_that_is_not_allowed_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    with (
        served(listed(), called(), said("As you like."), called()) as endpoint,
        chat(endpoint, "--tools", str(tmp_path / "tools.py")) as terminal,
    ):
        terminal.wait_for_prompt()
        terminal.type("weather?")
        terminal.wait_for("run it?")
        terminal.type("n")
        screen = terminal.wait_for("As you like.")
        assert "← weather: the user did not allow this call" in screen
        assert "looking out of the window" not in screen
        terminal.wait_for_prompt()
        terminal.type("again")
        terminal.wait_for(lambda screen: screen.count("run it?") == 2)
        terminal.press("C-c")
        terminal.wait_for("stopped")
        terminal.wait_for_prompt()
        assert len(endpoint.asked) == 4  # no request follows an interrupted call


HANGS = '''\
import threading


def weather(city: str) -> None:
    """Waits forever."""
    threading.Event().wait()
'''


def test_ctrl_c_abandons_a_tool_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(HANGS)
    arguments = ("--tools", str(tmp_path / "tools.py"), "--yes")
    with served(listed(), called()) as endpoint, chat(endpoint, *arguments) as terminal:
        terminal.wait_for_prompt()
        terminal.type("weather?")
        terminal.wait_for("running weather …")
        terminal.press("C-c")
        terminal.wait_for("← weather: the user cancelled this call")
        terminal.wait_for_prompt()
        terminal.press("C-d")
        terminal.wait_for("[ended with 0]")


def test_ctrl_c_stops_the_answer_and_not_the_program() -> None:
    scripts = [never_ending("It goes on ", "and on "), said("Here I am."), never_ending()]
    with served(listed(), *scripts) as endpoint, chat(endpoint) as terminal:
        terminal.wait_for_prompt()
        terminal.type("Tell me everything")
        terminal.wait_for("It goes on and on")
        terminal.press("C-c")
        terminal.wait_for("stopped")
        endpoint.hung_up()
        terminal.wait_for_prompt()
        terminal.type("Are you there?")
        screen = terminal.wait_for("Here I am.")
        assert "in ~" in screen  # the usage of the stopped answer is estimated
        history = endpoint.asked[-1].json["input"]
        assert [item["role"] for item in history] == ["user", "assistant", "user"]
        terminal.wait_for_prompt()
        terminal.type("No answer to this")
        terminal.wait_for("waiting …")
        terminal.press("C-c")
        terminal.wait_for("stopped; the question was not added to the conversation")
        terminal.wait_for_prompt()
        terminal.press("C-c")
        terminal.wait_for("(press Ctrl-C again, Ctrl-D or /quit to quit)")
        terminal.press("C-c")
        terminal.wait_for("[ended with 0]")


def test_an_error_is_shown_and_the_conversation_continues() -> None:
    failure = refused(429, "slow down", "rate_limit_exceeded", retry_after="90")
    with served(listed(), failure, said("Now.")) as endpoint, chat(endpoint) as terminal:
        terminal.wait_for_prompt()
        terminal.type("first")
        terminal.wait_for("too many requests; wait 90 s and try again: slow down")
        terminal.wait_for_prompt()
        terminal.type("second")
        terminal.wait_for("Now.")
        assert len(endpoint.asked[-1].json["input"]) == 1


def test_markdown_is_styled_and_escape_sequences_are_escaped() -> None:
    answer = said("# Tit", "le\n\nsome *", "*bold** te", "xt \x1b[31m", "red\n```\ncode\n```\n")
    with served(listed(), answer) as endpoint, chat(endpoint) as terminal:
        terminal.wait_for_prompt()
        terminal.type("go")
        screen = terminal.wait_for("context")
        assert "Title\n\nsome bold text \\x1b[31mred\n```\ncode\n```\n" in screen
        assert "\x1b[1mbold" in terminal.styled()
        assert "\x1b[31m" not in terminal.styled()


def test_no_color_leaves_the_text_unchanged() -> None:
    with served(listed(), said("some **bold** text")) as endpoint, chat(endpoint, NO_COLOR="1") as terminal:
        terminal.wait_for_prompt()
        terminal.type("go")
        terminal.wait_for("some **bold** text")
        terminal.wait_for_prompt()
        assert "\x1b[" not in terminal.styled()


def test_thinking_is_folded_until_the_user_wants_to_see_it() -> None:
    scripts = [thought(["I ponder ", "this ma", "tter."], ["Yes."]), thought(["Aloud now."], ["No."])]
    with served(listed(), *scripts) as endpoint, chat(endpoint) as terminal:
        terminal.wait_for_prompt()
        terminal.type("Is it?")
        terminal.wait_for("Yes.")
        screen = terminal.wait_for_prompt()
        assert re.search(r"\nthought \(4 words, \d+ s\)\nYes\.\n", screen)
        assert "ponder" not in screen
        assert "thinking" not in screen
        terminal.type("/thinking")
        terminal.wait_for("thinking is shown in full")
        terminal.type("And now?")
        terminal.wait_for("Aloud now.\nNo.\n")


def test_undo_help_usage_model_and_clear() -> None:
    models = listed("test-model", "other-model")
    with (
        served(models, said("One."), said("Two."), said("Three.")) as endpoint,
        chat(endpoint, "--model", MODEL) as terminal,
    ):
        terminal.wait_for_prompt()
        terminal.type("/help")
        terminal.wait_for("/undo                    remove the last exchange")
        terminal.type("/undo")
        terminal.wait_for("there is nothing to undo")
        terminal.type("/nonsense")
        terminal.wait_for("unknown command /nonsense")
        terminal.type("first")
        terminal.wait_for("One.")
        terminal.wait_for_prompt()
        terminal.type("second")
        terminal.wait_for("Two.")
        terminal.wait_for_prompt()
        terminal.type("/undo")
        terminal.wait_for("removed: second")
        terminal.type("/model")
        terminal.wait_for("* test-model")
        terminal.press("/mo", "Tab", " ", "o", "Tab", "Enter")
        terminal.wait_for("the model is now other-model")
        terminal.type("third")
        terminal.wait_for("Three.")
        terminal.wait_for_prompt()
        terminal.type("/usage")
        terminal.wait_for("all: 3 requests, in 27, out 36")
        terminal.type("/clear")
        terminal.wait_for("started a new conversation")
        terminal.type("/undo")
        terminal.wait_for(lambda screen: screen.count("there is nothing to undo") == 2)
        terminal.press("C-d")
        terminal.wait_for("[ended with 0]")
    last = endpoint.asked[-1].json
    assert last["model"] == "other-model"
    texts = [item["content"][0]["text"] for item in last["input"]]
    assert texts == ["first", "One.", "third"]


def test_a_message_has_several_lines_after_a_backslash_or_a_paste() -> None:
    with served(listed(), said("One."), said("Two.")) as endpoint, chat(endpoint) as terminal:
        terminal.wait_for_prompt()
        terminal.type("first line\\")
        terminal.wait_for(lambda screen: screen.splitlines()[-1:] == ["."])
        terminal.type("second line")
        terminal.wait_for("One.")
        terminal.wait_for_prompt()
        terminal.paste("a\nb\nc")
        terminal.wait_for("> a")
        terminal.press("Enter")
        terminal.wait_for("Two.")
    texts = [asked.json["input"][-1]["content"][0]["text"] for asked in endpoint.asked[1:]]
    assert texts == ["first line\nsecond line", "a\nb\nc"]


def test_the_terminal_may_be_resized_during_an_answer() -> None:
    events = streams.hello(["word " * 60, "and the end."])
    script = [send(head(transfer_encoding="chunked") + chunk(sse(events[:5]))), gate]
    script.append(send(chunk(sse(events[5:], done=True)) + b"0\r\n\r\n"))
    with served(listed(), script, said("Done.")) as endpoint, chat(endpoint) as terminal:
        terminal.wait_for_prompt()
        terminal.type("many words")
        terminal.wait_for("word word")
        terminal.resize(50, 20)
        endpoint.release()
        terminal.wait_for("and the end.")
        screen = terminal.wait_for_prompt()
        assert screen.count("word") == 60 + 1  # each once, and the question
        terminal.resize(120, 30)
        terminal.type("more")
        terminal.wait_for("Done.")
        terminal.wait_for_prompt()


def test_a_saved_conversation_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "saved.jsonl"
    with served(listed(), said("One."), listed(), said("Two.")) as endpoint:
        with chat(endpoint) as terminal:
            terminal.wait_for_prompt()
            terminal.type("first")
            terminal.wait_for("One.")
            terminal.wait_for_prompt()
            terminal.type(f"/save {file}")
            terminal.wait_for("saved 2 messages")
        with chat(endpoint, "--load", str(file)) as terminal:
            terminal.wait_for("loaded a conversation with 1 exchange")
            terminal.type("second")
            terminal.wait_for("Two.")
    assert len(endpoint.asked[-1].json["input"]) == 3


def test_a_prompt_on_the_command_line_is_one_question() -> None:
    with served(listed(), said("**Hello.**")) as endpoint, chat(endpoint, "hi") as terminal:
        screen = terminal.wait_for("[ended with 0]")
        assert screen.startswith("Hello.\nin 9 · out 12")


def test_no_server_at_the_address_is_reported_at_once() -> None:
    with TmuxTerminal(COMMAND, "chat", "--base-url", "http://127.0.0.1:9") as terminal:
        screen = terminal.wait_for("[ended with 2]")
        assert "Is the server running" in screen
