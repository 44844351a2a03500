"""Mistyped commands, options and values: what the message suggests."""

from __future__ import annotations

import pytest

from penstock.cli import COMMANDS, build_parser
from tests.cli.help_texts import PAGE
from tests.cli.running import penstock


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("chek", 'penstock: error: there is no command called "chek"; did you mean check?'),
        ("SERVE", 'there is no command called "SERVE"; did you mean serve?'),
        ("conf", 'there is no command called "conf"; did you mean config?'),
        ("xyz", 'there is no command called "xyz"; available: chat, check, '),
        ("--versoin", "penstock: error: unrecognized arguments: --versoin; did you mean --version?"),
        ("serve --prot 1", "penstock serve: error: unrecognized arguments: --prot 1; did you mean --port?"),
        ("serve --prot=1", "unrecognized arguments: --prot=1; did you mean --port?"),
        ("serve -port 1", "unrecognized arguments: -port 1; did you mean --port?"),
        ("serve --key K", "did you mean --api-key-env?"),
        ("serve --prot 1 --uptream x", "; did you mean --port?; did you mean --upstream?"),
        ("store prune --max-szie 1GB", "penstock store prune: error: unrecognized arguments"),
        ("store prune --max-szie 1GB", "; did you mean --max-size?"),
        ("store prun", 'penstock store: error: there is no action called "prun"; did you mean prune?'),
        ("translate --dialct chat -", "required: --dialect; did you mean --dialect?"),
        ("translate --dialect chta -", "argument --dialect: invalid choice 'chta'; did you mean chat?"),
        ("translate --dialect x -", "argument --dialect: invalid choice 'x'; available: ai_sdk, anthropic"),
        ("serve --log-level wrning", "argument --log-level: invalid choice 'wrning'; did you mean warning?"),
        ("keys creat laptop", 'there is no action called "creat"; did you mean create?'),
        ("connect codx", 'there is no client called "codx"; did you mean codex?'),
        ("run codx -- exec", 'there is no client called "codx"; did you mean codex?'),
        ("run codex exec hello", "unrecognized arguments: exec hello; the client's own arguments follow --"),
        ("run codex --modle x -- --prset y", "follow --; did you mean --model?"),
        ("serve --preset antropic", 'there is no preset called "antropic"; did you mean anthropic?'),
        ("render --preset opnai -", 'there is no preset called "opnai"; did you mean openai'),
        ("chat --preset vercle hello", 'there is no preset called "vercle"; did you mean vercel?'),
        ("usage --by modle", "--by: 'modle' is unknown; did you mean model?"),
    ],
)
def test_a_similar_name_is_suggested(arguments: str, message: str) -> None:
    result = penstock(*arguments.split())
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_the_example_in_the_docs_is_current() -> None:
    command = "penstock serve --prest anthropic"
    assert f"$ {command}\n{penstock(*command.split()[1:]).stderr}```" in PAGE.read_text()


def test_what_nobody_could_have_meant_gets_no_suggestion() -> None:
    result = penstock("serve", "--xyzzy")
    assert result.returncode == 2
    assert result.stderr.endswith("penstock serve: error: unrecognized arguments: --xyzzy\n")
    result = penstock("chat", "hello", "more", "--", "--modle")
    assert "did you mean" not in result.stderr


def test_a_word_cannot_change_the_terminal() -> None:
    assert "\x1b" not in penstock("serve", "--\x1b[31m").stderr
    assert "\x1b" not in penstock("\x1b[31m").stderr


def test_every_command_suggests_its_own_options() -> None:
    for command in COMMANDS:
        result = penstock(command, "--hlep")
        assert (result.returncode, result.stdout) == (2, "")
        assert "--help?" in result.stderr


def test_flags_are_the_long_options() -> None:
    assert build_parser().flags() == ["--help", "--version"]
    assert [action.dest for action in build_parser().actions()] == ["help", "version", "command"]
