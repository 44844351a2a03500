"""The Codex CLI: editing tasks on models that speak Chat Completions, Anthropic Messages or Gemini."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.connect.codex_config import with_codex_settings
from penstock.connect.guides import DEFAULT
from tests.client.server import in_a_thread
from tests.clients import environments
from tests.clients.codex import LONGEST, Codex, Ran
from tests.clients.script import (
    Answer,
    Cut,
    Hang,
    Refuse,
    Repeat,
    Say,
    Seen,
    Silence,
    Think,
    Used,
    function,
    patch,
    shell,
)
from tests.clients.stage import MODELS, Stage
from tests.clients.upstreams.chat import StrictChat

pytestmark = pytest.mark.clients

ALL = tuple(MODELS)
DONE = (Say("All done."),)

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

MY_CONFIG = b"""\
# mine
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
"""

Case = Callable[[Codex, Stage, str], None]


# Text and tools


def text(codex: Codex, stage: Stage, dialect: str) -> None:
    codex.configure(stage.play(dialect, (Say("Good morning."),)))
    ran = codex.run("Say good morning")
    assert (ran.code, ran.texts) == (0, ["Good morning."])
    assert stage.seen(dialect)[0].texts("user")[-1] == "Say good morning"


def shell_command(codex: Codex, stage: Stage, dialect: str) -> None:
    codex.configure(stage.play(dialect, (Say("Let me see."), shell("echo grey > cat.txt; echo meow")), DONE))
    ran = codex.run("Write down the colour of the cat")
    assert (ran.code, ran.texts) == (0, ["Let me see.", "All done."])
    assert (codex.work / "cat.txt").read_text() == "grey\n"
    assert [item["exit_code"] for item in ran.items("command_execution")] == [0]
    last = stage.seen(dialect)[1]
    assert last.kinds[-2:] == ["call", "output"]
    assert "meow" in last.texts("output")[0]


def apply_patch(codex: Codex, stage: Stage, dialect: str) -> None:
    """Change one file and create another with the custom tool `apply_patch`."""
    (codex.work / "old.txt").write_text("one\ntwo\nthree\n")
    whole = """*** Begin Patch
*** Update File: old.txt
@@
 one
-two
+2 "quoted" \\ and é
 three
*** Add File: new/file.txt
+fresh
*** End Patch
"""
    codex.configure(stage.play(dialect, (patch(whole),), DONE))
    ran = codex.run("Change the files")
    assert (ran.code, ran.texts) == (0, ["All done."])
    assert (codex.work / "old.txt").read_text() == 'one\n2 "quoted" \\ and é\nthree\n'
    assert (codex.work / "new" / "file.txt").read_text() == "fresh\n"
    sent = [item for item in stage.turns[1].json["input"] if item["type"].startswith("custom_tool_call")]
    assert [item["type"] for item in sent] == ["custom_tool_call", "custom_tool_call_output"]
    assert "Success" in stage.seen(dialect)[1].texts("output")[0]


def parallel_calls(codex: Codex, stage: Stage, dialect: str) -> None:
    both: Answer = (shell("echo first > 1.txt; echo uno"), shell("echo second > 2.txt; echo due"))
    codex.configure(stage.play(dialect, both, DONE))
    ran = codex.run("Do two things")
    assert (ran.code, ran.texts) == (0, ["All done."])
    assert [(codex.work / f"{number}.txt").read_text() for number in (1, 2)] == ["first\n", "second\n"]
    first, second = stage.seen(dialect)[1].texts("output")
    assert "uno" in first
    assert "due" in second


def mcp_server(codex: Codex, stage: Stage, dialect: str) -> None:
    """Call a tool of an MCP server, which Codex declares in a namespace."""
    script = (function("look_up", word="penstock"),), (function("letters", word="gate"),), DONE
    codex.configure(stage.play(dialect, *script), mcp=True)
    ran = codex.run("What is a penstock?")
    assert (ran.code, ran.texts) == (0, ["All done."])
    items = ran.items("mcp_tool_call")
    assert [item["status"] for item in items] == ["completed", "completed"], items
    sent = [item for item in stage.turns[2].json["input"] if item["type"] == "function_call"]
    assert {item["namespace"] for item in sent} == {"mcp__demo"}
    last = stage.seen(dialect)[2]
    assert ["a kind of gate" in text for text in last.texts("output")] == [True, False]


def tool_search(codex: Codex, stage: Stage, dialect: str) -> None:
    """With deferred tools, those of an MCP server are out of reach until the model has searched for them."""
    script = (function("tool_search", query="dictionary"),), (function("look_up", word="penstock"),), DONE
    codex.configure(stage.play(dialect, *script), mcp=True, change=_searches)
    ran = codex.run("What is a penstock?")
    assert (ran.code, ran.texts) == (0, ["All done."])
    assert [item["status"] for item in ran.items("mcp_tool_call")] == ["completed"]
    assert not any("look_up" in tool.name for tool in stage.seen(dialect)[0].tools)
    sent = [item["type"] for item in stage.turns[2].json["input"] if "tool_search" in item["type"]]
    assert sent == ["tool_search_call", "tool_search_output"]


def _searches(model: dict[str, Any]) -> None:
    model["supports_search_tool"] = True


def code_mode(codex: Codex, stage: Stage, dialect: str) -> None:
    """The tools are in an `additional_tools` item; one custom tool runs JavaScript that calls the others."""

    def change(model: dict[str, Any]) -> None:
        model |= {"use_responses_lite": True, "tool_mode": "code_mode_only"}

    program = 'const ran = await tools.exec_command({cmd: "echo grey > cat.txt; echo meow"});\ntext(ran);'
    codex.configure(stage.play(dialect, (function("exec", input=program),), DONE), change=change)
    ran = codex.run("Write down the colour of the cat")
    assert (ran.code, ran.texts) == (0, ["All done."])
    assert (codex.work / "cat.txt").read_text() == "grey\n"
    types = [item["type"] for item in stage.turns[1].json["input"]]
    sent = [each for each in types if each not in ("message", "reasoning")]
    assert sent == ["additional_tools", "custom_tool_call", "custom_tool_call_output"]
    assert "meow" in stage.seen(dialect)[1].texts("output")[0]


def view_image(codex: Codex, stage: Stage, dialect: str) -> None:
    (codex.work / "dot.png").write_bytes(PICTURE)
    codex.configure(stage.play(dialect, (function("view_image", path=str(codex.work / "dot.png")),), DONE))
    ran = codex.run("Look at dot.png")
    assert (ran.code, ran.texts) == (0, ["All done."])
    sent = [item["output"] for item in stage.turns[1].json["input"] if item["type"] == "function_call_output"]
    url = next(part["image_url"] for part in sent[0] if part["type"] == "input_image")
    assert stage.seen(dialect)[1].texts("image") == [url]


def attached_image(codex: Codex, stage: Stage, dialect: str) -> None:
    (codex.work / "dot.png").write_bytes(PICTURE)
    codex.configure(stage.play(dialect, DONE))
    ran = codex.run("What is this?", "--image", str(codex.work / "dot.png"), "--")
    assert (ran.code, ran.texts) == (0, ["All done."])
    (sent,) = stage.seen(dialect)[0].texts("image")
    assert sent.startswith("data:image/png;base64,")


def output_schema(codex: Codex, stage: Stage, dialect: str) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    (codex.work / "schema.json").write_text(json.dumps(schema))
    codex.configure(stage.play(dialect, (Say('{"colour":"grey"}'),)))
    ran = codex.run("Which colour?", "--output-schema", str(codex.work / "schema.json"))
    assert (ran.code, ran.texts) == (0, ['{"colour":"grey"}'])
    assert "colour" in json.dumps(stage.upstreams[dialect].bodies[0])


def reasoning_shown(codex: Codex, stage: Stage, dialect: str) -> None:
    script = (Think("The cat is probably grey."), shell("echo meow")), (Think("It is."), *DONE)
    codex.configure(stage.play(dialect, *script), top='model_reasoning_effort = "medium"')
    ran = codex.run("Think about the cat")
    assert (ran.code, ran.texts) == (0, ["All done."])
    shown = [item["text"] for item in ran.items("reasoning")]
    assert shown == ["The cat is probably grey.", "It is."]
    if dialect == "anthropic":  # the others do not want it back, or only its signature
        assert stage.seen(dialect)[1].texts("reasoning") == ["The cat is probably grey."]


# Sub-agents


def sub_agent(codex: Codex, stage: Stage, dialect: str, version: str = "v1") -> None:
    """An agent starts another one with a task, and waits for its result."""

    def reply(seen: Seen) -> Answer:
        if any("listen to the cat" in text for text in seen.texts("user")):
            return (Say("It says meow."),)
        outputs = seen.texts("output")
        if not outputs:
            return (function("spawn_agent", message="Please listen to the cat.", task_name="listener"),)
        if len(outputs) == 1:
            started = json.loads(outputs[0])
            return (function("wait_agent", targets=[started.get("agent_id")], timeout_ms=10_000),)
        return DONE

    def change(model: dict[str, Any]) -> None:
        model["multi_agent_version"] = version

    codex.configure(stage.play(dialect, Repeat(reply)), change=change)
    ran = codex.run("What does the cat say? Ask a sub-agent")
    assert (ran.code, ran.texts) == (0, ["All done."])
    last = max(stage.seen(dialect), key=lambda seen: len(seen.texts("output")))
    assert any("It says meow." in entry.text for entry in last.entries), last.entries[-3:]


def sub_agent_v2(codex: Codex, stage: Stage, dialect: str) -> None:
    """The same with the newer protocol, in which the task is an item of its own type."""
    sub_agent(codex, stage, dialect, "v2")
    types = [item["type"] for turn in stage.turns for item in turn.json["input"]]
    assert "agent_message" in types


# Long conversations


def resume(codex: Codex, stage: Stage, dialect: str) -> None:
    script = (shell("echo meow"),), (Say("It said meow."),), (Say("A cat, I think."),)
    codex.configure(stage.play(dialect, *script), top='model_reasoning_effort = "medium"')
    first = codex.run("Listen")
    second = codex.run("What was it?", resume=first.thread)
    assert (second.code, second.texts) == (0, ["A cat, I think."])
    last = stage.seen(dialect)[2]
    assert [kind for kind in last.kinds if kind in ("call", "output", "assistant")] == [
        "call",
        "output",
        "assistant",
    ]
    assert last.texts("user")[-1] == "What was it?"


def model_switch(codex: Codex, stage: Stage, dialect: str) -> None:
    """Begin with a model at another upstream, which also reasons, and continue with this one."""
    other = ALL[ALL.index(dialect) - 1]
    script = (Think("A noise."), shell("echo meow")), (Say("It said meow."),)
    stage.play(dialect, (shell("echo purr"),), (Say("A cat, I think."),))
    codex.configure(stage.also_play(other, *script), top='model_reasoning_effort = "medium"')
    first = codex.run("Listen")
    assert (first.code, first.texts) == (0, ["It said meow."])
    second = codex.run("What was it?", "--model", MODELS[dialect], resume=first.thread)
    assert (second.code, second.texts) == (0, ["A cat, I think."])
    outputs = stage.seen(dialect)[1].texts("output")
    assert ["meow" in outputs[0], "purr" in outputs[1]] == [True, True]


def compaction(codex: Codex, stage: Stage, dialect: str) -> None:
    """Codex compacts the conversation when the reported usage passes its limit."""
    script = (shell("echo meow"), Used(90_000)), (Say("SUMMARY: a cat"),), DONE
    codex.configure(stage.play(dialect, *script), top="model_auto_compact_token_limit = 50000")
    ran = codex.run("Listen")
    assert (ran.code, ran.texts) == (0, ["All done."])
    asked, after = stage.seen(dialect)[1:]
    assert "CONTEXT CHECKPOINT COMPACTION" in asked.texts("user")[-1]
    assert "SUMMARY: a cat" in after.texts("user")[-1]
    assert after.texts("call") == []


# Trouble


def silence(codex: Codex, stage: Stage, dialect: str) -> None:
    """A silence that is longer than Codex's idle limit, in the middle of an answer: only events count."""
    codex.configure(
        stage.play(dialect, (Say("Wait ... "), Silence(3.5), Say("done."))),
        provider="stream_idle_timeout_ms = 1500\nstream_max_retries = 0",
    )
    ran = codex.run("Take your time")
    assert (ran.code, ran.texts) == (0, ["Wait ... done."])


def silent_beginning(codex: Codex, stage: Stage, dialect: str) -> None:
    """The same before the first byte of the answer."""
    codex.configure(
        stage.play(dialect, (Silence(3.5), Say("done."))),
        provider="stream_idle_timeout_ms = 1800\nstream_max_retries = 0",
    )
    ran = codex.run("Take your time")
    assert (ran.code, ran.texts) == (0, ["done."])


def cut_in_text(codex: Codex, stage: Stage, dialect: str) -> None:
    script = (shell("echo meow >> cat.txt"),), (Say("The cat s"), Cut()), (Say("The cat said meow."),)
    codex.configure(stage.play(dialect, *script))
    ran = codex.run("Listen")
    assert (ran.code, ran.texts[-1]) == (0, "The cat said meow.")
    assert (codex.work / "cat.txt").read_text() == "meow\n"
    assert stage.seen(dialect)[2].texts("output") == stage.seen(dialect)[1].texts("output")


def cut_after_call(codex: Codex, stage: Stage, dialect: str) -> None:
    """Whether the call was complete before the cut depends on the upstream. It runs once in any case."""

    def again(seen: Seen) -> Answer:
        return DONE if "output" in seen.kinds else (shell("echo meow >> cat.txt"),)

    codex.configure(stage.play(dialect, (shell("echo meow >> cat.txt"), Cut()), Repeat(again)))
    ran = codex.run("Listen")
    assert (ran.code, ran.texts) == (0, ["All done."])
    assert (codex.work / "cat.txt").read_text() == "meow\n"


def rate_limit_with_wait(codex: Codex, stage: Stage, dialect: str) -> None:
    codex.configure(stage.play(dialect, (Refuse(429, "slow down", {"retry-after": "1"}),), DONE))
    ran = codex.run("Hurry")
    assert (ran.code, ran.texts) == (0, ["All done."])
    assert [each.status for each in stage.turns] == [429, 200]


def rate_limit_without_wait(codex: Codex, stage: Stage, dialect: str) -> None:
    codex.configure(stage.play(dialect, (Refuse(429, "slow down"),), DONE))
    ran = codex.run("Hurry")
    assert (ran.code, ran.texts) == (0, ["All done."])
    assert stage.turns[0].answer_headers["retry-after"]


def refused(codex: Codex, stage: Stage, dialect: str) -> None:
    """An error of the upstream that cannot be retried is shown to the user, once."""
    codex.configure(stage.play(dialect, (Refuse(400, "no cats are allowed here"),)))
    ran = codex.run("Listen")
    assert ran.code == 1
    assert "no cats are allowed here" in ran.errors[-1]
    assert len(stage.turns) == 1


def interrupted(codex: Codex, stage: Stage, dialect: str) -> None:
    """Ctrl-C closes the connection to the upstream."""
    codex.configure(stage.play(dialect, (Say("And so on "), Hang())))
    process = codex.start("Tell me everything")
    stage.wait_for_requests(dialect, 1)
    codex.interrupt(process)
    assert stage.wait_until_left(dialect)


# WebSocket


def websocket(codex: Codex, stage: Stage, dialect: str) -> None:
    script = (shell("echo meow"),), (function("look_up", word="cat"),), DONE
    codex.configure(stage.play(dialect, *script), provider="supports_websockets = true", mcp=True)
    ran = codex.run("Listen")
    assert (ran.code, ran.texts) == (0, ["All done."])
    assert {each.status for each in stage.turns} == {101}
    assert [text.count("meow") for text in stage.seen(dialect)[2].texts("output")] == [1, 0]


CASES: dict[str, tuple[Case, tuple[str, ...]]] = {
    "text": (text, ALL),
    "a shell command": (shell_command, ALL),
    "apply_patch on two files": (apply_patch, ALL),
    "parallel calls": (parallel_calls, ALL),
    "an MCP server": (mcp_server, ALL),
    "an MCP server behind tool_search": (tool_search, ALL),
    "code mode": (code_mode, ALL),
    "view_image": (view_image, ALL),
    "an image in the prompt": (attached_image, ALL),
    "output schema": (output_schema, ALL),
    "reasoning shown": (reasoning_shown, ALL),
    "a sub-agent": (sub_agent, ALL),
    "a sub-agent, multi_agent_v2": (sub_agent_v2, ALL),
    "resume": (resume, ALL),
    "model switch": (model_switch, ALL),
    "compaction": (compaction, ALL),
    "silence in an answer": (silence, ("chat",)),
    "silence before an answer": (silent_beginning, ("chat",)),
    "cut in a text": (cut_in_text, ALL),
    "cut after a call": (cut_after_call, ALL),
    "429 with retry-after": (rate_limit_with_wait, ALL),
    "429 without retry-after": (rate_limit_without_wait, ("chat",)),
    "an upstream error": (refused, ALL),
    "Ctrl-C": (interrupted, ALL),
    "WebSocket": (websocket, ALL),
}


@pytest.fixture
def codex(scene: Stage, install: Callable[[str], Path], tmp_path: Path) -> Codex:
    install("codex")
    return Codex(environments.codex(), tmp_path, scene.base_url)


@pytest.mark.parametrize("client", ["Codex CLI"])
@pytest.mark.parametrize(("case", "dialect"), [(case, each) for case in CASES for each in CASES[case][1]])
def test_codex(client: str, case: str, dialect: str, codex: Codex, scene: Stage) -> None:  # noqa: ARG001
    CASES[case][0](codex, scene, dialect)
    scene.check()


# penstock run


def test_penstock_run_starts_it_without_a_change_of_its_configuration(
    install: Callable[[str], Path], tmp_path: Path
) -> None:
    """The file has a provider of `penstock connect`, for another gateway; sessions are kept as always."""
    install("codex")
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".codex").mkdir(parents=True)
    work.mkdir()
    config = home / ".codex" / "config.toml"
    config.write_bytes(with_codex_settings(MY_CONFIG, DEFAULT, str(config)))
    before = config.read_bytes()

    def run(*arguments: str) -> Ran:
        path = os.pathsep.join([str(environments.codex().parent), os.environ["PATH"]])
        ran = subprocess.run(
            [Path(sys.executable).with_name("penstock"), "run", "codex", *arguments],
            cwd=work,
            env={
                "PATH": path,
                "HOME": str(home),
                "TMPDIR": str(tmp_path),
                "HTTP_PROXY": "http://127.0.0.1:9",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        return Codex.ran(ran.returncode, ran.stdout, ran.stderr)

    with in_a_thread(StrictChat()) as served:
        upstream = served.server
        assert isinstance(upstream, StrictChat)
        upstream.play([(shell("echo meow"),), (Say("It said meow."),), (Say("A cat, I think."),)])
        options = ("--upstream", f"{served.url}/v1", "--model", "scripted-model", "--")
        first = run(*options, "exec", "--json", "--skip-git-repo-check", "Listen")
        assert (first.code, first.texts) == (0, ["It said meow."]), first.stderr
        assert [item["exit_code"] for item in first.items("command_execution")] == [0]
        assert "Model metadata" not in first.stderr
        second = run(
            *options, "exec", "resume", first.thread, "--json", "--skip-git-repo-check", "What was it?"
        )
        assert (second.code, second.texts) == (0, ["A cat, I think."]), second.stderr
        assert upstream.refusals == []
        assert upstream.seen[2].texts("user")[-1] == "What was it?"
        assert "meow" in upstream.seen[2].texts("output")[0]
    assert config.read_bytes() == before
    assert not (home / ".codex" / "models_cache.json").exists()
    assert not list(tmp_path.glob("penstock-run-*"))
