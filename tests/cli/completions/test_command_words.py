"""What the parsers say about commands, options and arguments."""

from __future__ import annotations

from penstock.cli import COMMANDS
from penstock.cli.completions.command_words import CompletedArgument, all_commands
from penstock.dialects.presets import PRESETS

ALL = {command.name: command for command in all_commands()}


def option(command: str, flag: str) -> CompletedArgument:
    [found] = [each for each in ALL[command].options if flag in each.flags]
    return found


def test_every_command_and_action_is_there() -> None:
    assert ALL[""].subcommands == COMMANDS
    assert {name for name in ALL if name and " " not in name} == {*COMMANDS}
    assert list(ALL["store"].subcommands) == [
        *("stats", "prune", "export", "fail-queued", "migrate", "import")
    ]
    assert all(summary for command in ALL.values() for summary in command.subcommands.values())
    assert {"store prune", "config show"} <= {*ALL}


def test_every_command_has_help() -> None:
    for name in ALL:
        assert option(name, "--help").kind == "none"


def test_values_are_choices_and_presets() -> None:
    assert option("translate", "--accent").values == ("openresponses", "openai", "copilot")
    assert option("serve", "--preset").values == tuple(sorted(PRESETS))
    assert "codex" in ALL["connect"].positionals[0].values
    assert option("serve", "--port").values == ()


def test_files_and_variables_are_recognized() -> None:
    files = [("serve", "--config"), ("chat", "--tools"), ("chat", "--image"), ("store export", "-o")]
    for command, flag in files:
        assert option(command, flag).kind == "file"
    for command in ("check", "translate", "parts", "render", "replay", "config check", "config show"):
        assert ALL[command].positionals[0].kind == "file"
    assert option("serve", "--store").values == ("none",)
    assert option("serve", "--api-key-env").kind == "variable"
    assert option("serve", "--host").kind == "other"
    assert option("serve", "--record").kind == "none"


def test_no_word_needs_quotes_in_a_shell() -> None:
    words = {word for each in ALL.values() for word in [*each.subcommands, *each.path]}
    for each in ALL.values():
        for argument in (*each.options, *each.positionals):
            words.update(argument.values, argument.flags)
    assert all(word.replace("-", "").replace("_", "").isalnum() for word in words)
