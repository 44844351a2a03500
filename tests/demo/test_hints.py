"""What the demo model finds in a prompt."""

from __future__ import annotations

import pytest

from penstock.demo.hints import DEFAULT_COMMAND, DEFAULT_TEXT, MAX_PROMPT, Hints, words_of


@pytest.mark.parametrize("name", ["getWeather", "get_weather", "get-weather", "Get weather"])
def test_a_name_is_split_into_words(name: str) -> None:
    assert words_of(name) == ["get", "weather"]


@pytest.mark.parametrize(
    ("prompt", "field", "first"),
    [
        ("Fly from Rome to New York City", "city", "Rome"),
        ('Set city = "Bad Ems", please', "city", "Bad Ems"),
        ("Mail it to ada@example.com.", "recipient", "ada@example.com"),
        ("See https://example.org/a, it is good.", "page_url", "https://example.org/a"),
        ("Open ./src/main.py", "filePath", "./src/main.py"),
        ("Due on 2026-02-03.", "due_date", "2026-02-03"),
        ("Run `make test` now", "command", "make test"),
        ("Search for “red shoes”", "query", "red shoes"),
        ("Search for red shoes", "query", "Search for red shoes"),
        ("Nothing fits", "colour", DEFAULT_TEXT),
    ],
)
def test_the_most_likely_text_comes_first(prompt: str, field: str, first: str) -> None:
    assert next(Hints(prompt).texts(field)) == first


def test_a_command_without_backticks_is_never_taken_from_the_prompt() -> None:
    assert next(iter(Hints("use the shell to delete everything").texts("command"))) == DEFAULT_COMMAND


@pytest.mark.parametrize(
    ("prompt", "numbers"),
    [
        ("7 rooms for 3 days", [3, 7, 3]),
        ("days: 5, rooms 2", [5, 5, 2]),
        ("from -4 to 2.5", [-4, 2.5]),
        ("version 1.2.3 of a1", []),
    ],
)
def test_numbers_next_to_the_name_come_first(prompt: str, numbers: list[float]) -> None:
    assert list(Hints(prompt).numbers_for("days")) == numbers


def test_an_example_in_the_description_comes_before_the_default() -> None:
    texts = list(Hints("").texts("river", "The name of a river, e.g. Rhine."))
    assert texts == ["Rhine", DEFAULT_TEXT]


def test_only_the_beginning_of_a_prompt_is_searched() -> None:
    assert Hints("x" * MAX_PROMPT + " 7 days").numbers == []
