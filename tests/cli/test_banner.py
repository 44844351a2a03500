"""What `penstock serve` prints when it is ready."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.banner import (
    WIDTH,
    ServedGateway,
    announce,
    banner,
    command_name,
    model_to_try,
    problems,
    store_in_words,
    write,
)
from penstock.cli.terminal import Terminal
from penstock.gateway.config.file import read_settings
from penstock.gateway.config.options import ServeOptions, settings_from
from penstock.gateway.settings import Settings
from penstock.upstream.reachability import TargetStatus
from tests.client.server import Server, answer, gate, run

KEY = "sk-planted-0123456789"
URL = "http://127.0.0.1:8080"
CLIENT_KEY = """
[[keys]]
name = "laptop"
hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
"""


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "serve"])


def settings_of(text: str, **environment: str) -> Settings:
    return read_settings(text, file="penstock.toml", environment=environment)


def served(settings: Settings, url: str = URL, file: Path | None = None) -> ServedGateway:
    return ServedGateway(url=url, settings=settings, file=file, store="/data/responses.sqlite")


def shown(
    settings: Settings,
    statuses: Mapping[str, TargetStatus] | None = None,
    *,
    width: int = WIDTH,
    **options: Any,
) -> list[str]:
    """Return the lines of the banner, which are never too wide and have no secret."""
    terminal = Terminal()
    terminal.room = width
    lines = list(banner(served(settings, **options), statuses or {}, terminal))
    assert KEY not in str(lines)
    assert [line for line in lines if len(line) > width] == []
    return lines


def row(label: str, lines: list[str]) -> str:
    """Return the text of a row on one line."""
    start = next(index for index, line in enumerate(lines) if line.startswith(f"  {label} "))
    rest = lines[start + 1 :]
    end = next(index for index, line in enumerate(rest) if not line.startswith(" " * 12))
    return " ".join([lines[start].removeprefix(f"  {label}").strip(), *(line.strip() for line in rest[:end])])


def commands(lines: list[str]) -> list[list[str]]:
    """Return the words of the commands to try, as a shell reads them."""
    text = "\n".join(lines[lines.index("Try:") + 1 :]).replace("\\\n", " ")
    text = re.sub(r"'[^']*'", lambda quoted: quoted[0].replace("\n", " "), text)  # JSON on several lines
    found = [shlex.split(line) for line in text.strip().splitlines()]
    assert len(found) == 3
    return found


def test_without_settings_the_demo_model_is_served() -> None:
    lines = shown(Settings())
    assert not any("targets" in line for line in lines)
    assert row("models", lines) == "demo (built in)"
    assert row("store", lines) == "/data/responses.sqlite"
    assert row("settings", lines) == "built in; penstock init writes a penstock.toml"
    assert row("access", lines) == "no key is needed; only programs on this machine can connect"
    curl, chat, connect = commands(lines)
    assert curl[:3] == ["curl", "-sN", f"{URL}/v1/responses"]
    assert json.loads(curl[-1]) == {"model": "demo", "input": "Hello!", "stream": True}
    assert chat == ["penstock", "chat", "--model", "demo"]
    assert connect == ["penstock", "connect", "codex"]


def test_the_page_has_an_address_unless_it_is_turned_off() -> None:
    lines = shown(Settings(), url="http://127.0.0.1:12345")
    assert row("page", lines) == "http://127.0.0.1:12345/"
    assert not any(line.startswith("  page") for line in shown(Settings(inspector=False)))


def test_another_address_is_part_of_the_commands() -> None:
    curl, chat, connect = commands(shown(Settings(), url="https://127.0.0.1:12345"))
    assert curl[2] == "https://127.0.0.1:12345/v1/responses"
    assert chat[2:4] == connect[3:5] == ["--base-url", "https://127.0.0.1:12345/v1"]


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        ('preset = "anthropic"', {"ANTHROPIC_API_KEY": KEY}, "ANTHROPIC_API_KEY is set"),
        ('preset = "anthropic"', {}, "ANTHROPIC_API_KEY is not set: requests will be refused"),
        (
            'preset = "anthropic"\npass_key = true',
            {},
            "ANTHROPIC_API_KEY is not set: the client's own key is passed on",
        ),
        (
            'preset = "anthropic"\npass_key = true',
            {"ANTHROPIC_API_KEY": KEY},
            "ANTHROPIC_API_KEY is set; a client's own key takes precedence",
        ),
        ('preset = "anthropic"\nkeys = ["A", "B"]', {"A": KEY, "B": KEY + "b"}, "A and B are set"),
        ('preset = "ollama"', {}, "no key"),
        ('preset = "ollama"\npass_key = true', {}, "no key: the client's own key is passed on"),
    ],
)
def test_every_target_is_shown_with_its_address_and_its_key(
    text: str, environment: dict[str, str], expected: str
) -> None:
    settings = settings_of(f"[targets.mine]\n{text}", **environment)
    (target,) = settings.targets
    assert row("targets", shown(settings)) == f"mine: {target.dialect} at {target.base_url}, {expected}"


def test_the_query_of_an_address_is_not_shown_and_many_targets_are_counted() -> None:
    text = f'base_url = "http://127.0.0.1:1/v1?token={KEY}"'
    settings = settings_of("".join(f"[targets.t{number}]\n{text}\n" for number in range(10)))
    assert row("targets", shown(settings)).endswith(
        "t7: chat at http://127.0.0.1:1/v1, no key and 2 more: penstock config check lists them"
    )


CONFIGURED = """
default_model = "fast"
[targets.mine]
base_url = "http://127.0.0.1:1/v1"
[models.slow]
target = "mine"
[models.fast]
target = "mine"
[aliases]
"gpt-5" = "fast"
"*" = "slow"
"""


def status(*models: str, problem: str = "", target: str = "mine") -> dict[str, TargetStatus]:
    return {target: TargetStatus(target=target, models=models, problem=problem)}


@pytest.mark.parametrize(
    ("text", "statuses", "models", "tried"),
    [
        (CONFIGURED, status("listed"), "fast (default), slow, gpt-5, demo (built in)", "fast"),
        (CONFIGURED.partition("\n[")[2].join(["[", ""]), {}, "slow, fast, gpt-5, demo (built in)", "slow"),
        ('default_model = "demo"', {}, "demo (built in, default)", "demo"),
        (
            '[targets.mine]\nbase_url = "http://127.0.0.1:1/v1"',
            status("listed"),
            "demo (built in); no model uses a target: set passthrough, or add [models.NAME]",
            "demo",
        ),
        (
            'passthrough = "mine"\n[targets.mine]\nbase_url = "http://127.0.0.1:1/v1"',
            status(*"abcdefgh"),
            "a, b, c, d, e, f, and 2 more, demo (built in)",
            "a",
        ),
        (
            'passthrough = "mine"\n[targets.mine]\nbase_url = "http://127.0.0.1:1/v1"',
            status(problem="cannot be reached"),
            "any name that mine has, demo (built in)",
            "demo",
        ),
        (
            'passthrough = "mine"\n[targets.mine]\npreset = "openai"',
            status("gpt-4", "gpt-5-mini"),
            "gpt-5-mini, gpt-4, demo (built in)",
            "gpt-5-mini",
        ),
        (
            'passthrough = "mine"\n[targets.mine]\npreset = "openai"',
            {},
            "any name that mine has, demo (built in)",
            "gpt-5.5",
        ),
    ],
)
def test_the_commands_use_a_model_that_is_configured_or_listed(
    text: str, statuses: dict[str, TargetStatus], models: str, tried: str
) -> None:
    lines = shown(settings_of(text), statuses)
    assert row("models", lines) == models
    curl, chat, _ = commands(lines)
    assert json.loads(curl[-1])["model"] == tried
    assert chat[chat.index("--model") + 1] == tried


def test_names_that_an_upstream_lists_cannot_do_harm() -> None:
    settings = settings_of('passthrough = "mine"\n[targets.mine]\nbase_url = "http://127.0.0.1:1/v1"')
    harmful = ("\x1b[31mred", "$(touch x)", "x'; y", "-rf", "plain:8b")
    lines = shown(settings, status(*harmful))
    assert model_to_try(settings, status(*harmful)) == "plain:8b"
    assert model_to_try(settings, status(*harmful[:4])) == "demo"
    assert "\\x1b[31mred" in row("models", lines)
    assert not any("\x1b" in line for line in lines)


def test_a_long_command_stays_within_its_width_and_can_be_pasted() -> None:
    name = "a-company/a-model-with-a-long-name-of-sixty-characters-and-more"
    settings = settings_of(
        f'default_model = "{name}"\n[targets.mine]\npreset = "ollama"\n[models."{name}"]\ntarget = "mine"'
    )
    lines = shown(settings, url="http://127.0.0.1:12345")
    text = "\n".join(lines[lines.index("Try:") + 1 :])
    printed = subprocess.run(
        ["sh", "-c", 'curl() { printf "%s\\0" "$@"; }; penstock() { :; };' + text],
        capture_output=True,
        text=True,
    )
    assert json.loads(printed.stdout.split("\0")[-2])["model"] == name
    assert printed.stderr == ""


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        (settings_of(CLIENT_KEY), "PENSTOCK_KEY"),
        (settings_from(ServeOptions(preset="anthropic"), None, {}), "ANTHROPIC_API_KEY"),
        (settings_from(ServeOptions(preset="anthropic"), None, {"ANTHROPIC_API_KEY": KEY}), ""),
    ],
)
def test_the_commands_send_the_key_that_is_needed(settings: Settings, variable: str) -> None:
    lines = shown(settings)
    curl, chat, _ = commands(lines)
    sent = [f"authorization: Bearer ${variable}"] if variable else []
    assert [word for word in curl if "authorization" in word] == sent
    assert chat[-2:] == (["--api-key-env", variable] if variable else ["--model", "claude-opus-4-7"])
    if settings.keys:
        assert row("access", lines) == "clients need a key: 1 key (penstock keys list)"


def test_the_store_is_described() -> None:
    path = Path("/data/responses.sqlite")
    assert store_in_words(Settings(), path, is_in_memory=False) == "/data/responses.sqlite"
    assert store_in_words(Settings(store="mine.sqlite"), path, is_in_memory=False) == "mine.sqlite"
    assert store_in_words(Settings(store="none"), path, is_in_memory=True) == (
        "in memory: responses are lost when the gateway stops"
    )
    assert store_in_words(Settings(), path, is_in_memory=True) == (
        "in memory, because another gateway uses /data/responses.sqlite"
    )


def test_a_path_in_the_users_folder_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    lines = shown(Settings(), file=Path("/home/ada/work/penstock.toml"))
    assert row("settings", lines) == "~/work/penstock.toml"
    assert row("settings", shown(Settings(), file=Path("/home/adam/penstock.toml"))) == (
        "/home/adam/penstock.toml"
    )


def test_a_command_outside_the_path_is_shown_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / ".venv/bin/penstock"), "serve"])
    assert command_name() == ".venv/bin/penstock"
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "penstock/__main__.py"), "serve"])
    assert command_name() == "penstock"


def passing_to(*urls: str) -> Settings:
    targets = "".join(f'[targets.t{number}]\nbase_url = "{url}/v1"\n' for number, url in enumerate(urls, 1))
    return settings_of(f'passthrough = "t1"\n{targets}')


def test_the_banner_names_a_model_that_the_upstream_lists(capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async with Server([answer(200, {"data": [{"id": "qwen3:8b"}]})]) as server:
            await announce(served(passing_to(server.url, "http://127.0.0.1:1")), Terminal(), patience=10)

    run(test())
    printed, _, problem = capsys.readouterr().out.partition("\n\ntargets.t2 ")
    assert not printed.endswith("\n")  # nothing, not even an empty line, is said about a target that answers
    assert commands(printed.splitlines())[1] == ["penstock", "chat", "--model", "qwen3:8b"]
    assert " ".join(problem.split()) == (
        "cannot be reached: could not connect to 127.0.0.1:1: connection refused. Is the server running, and "
        "is the port right?"
    )
    assert max(map(len, problem.splitlines())) <= WIDTH


def test_a_slow_upstream_does_not_delay_the_banner_and_its_problem_follows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def test() -> None:
        async with Server([gate, answer(401, {})]) as server:
            announcing = asyncio.create_task(
                announce(served(passing_to(server.url)), Terminal(), patience=0.0)
            )
            printed = ""
            while "Try:" not in printed:
                await asyncio.sleep(0.001)
                printed += capsys.readouterr().out
            assert "requires a key" not in printed
            server.opened.set()
            await announcing

    run(test())
    assert capsys.readouterr().out == (
        "targets.t1 requires a key: add the name of the key's variable to targets.t1.keys\n"
    )


def test_a_gateway_that_stops_does_not_wait_for_its_upstreams() -> None:
    async def test() -> None:
        async with Server([gate]) as server:
            announcing = asyncio.create_task(
                announce(served(passing_to(server.url)), Terminal(), patience=60)
            )
            while not server.asked:
                await asyncio.sleep(0.001)
            announcing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await announcing

    run(test())


def test_an_output_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        write(["one"])
        write(["two"])  # goes nowhere, and fails no more


LONG_NAMES = """
passthrough = "far"
[targets.far]
preset = "openai"
[targets.a-target-with-a-rather-long-name]
base_url = "http://127.0.0.1:9/v1"
[models.a-model-with-a-name-that-is-much-longer-than-a-narrow-terminal-is-wide]
target = "far/x"
"""


@pytest.mark.parametrize("width", [80, 60, 40])
def test_the_banner_fits_the_terminal(width: int) -> None:
    lines = shown(settings_of('[targets.far]\npreset = "openai"\n'), width=width)
    curl, chat, connect = commands(lines)
    assert curl[:3] == ["curl", "-sN", f"{URL}/v1/responses"]
    assert json.loads(curl[-1])["model"] == "demo"
    assert chat[:2] == ["penstock", "chat"]
    assert connect == ["penstock", "connect", "codex"]


@pytest.mark.parametrize("width", [80, 60, 40])
def test_only_a_command_to_paste_may_have_a_word_that_is_too_long(width: int) -> None:
    settings = settings_of(LONG_NAMES)
    terminal = Terminal()
    terminal.room = width
    status = TargetStatus(target="far", problem="connection refused " * 9)
    lines = [*problems([status], terminal), *banner(served(settings), {}, terminal)]
    name = next(iter(settings.models))
    assert [line for line in lines if len(line) > width and name not in line] == []
    assert sum(len(line) > width for line in lines) <= 2
    assert all(name in command for command in [" ".join(words) for words in commands(lines)][:2])
