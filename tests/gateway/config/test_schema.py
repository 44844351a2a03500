"""The JSON Schema of `penstock.toml`: it accepts what the gateway accepts, and rejects what it can."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date, datetime, time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import settings as effort

from penstock.errors import ConfigError
from penstock.gateway.config import schema
from penstock.gateway.config.file import LIMITS, SERVER
from penstock.gateway.config.keys import KEY
from penstock.gateway.config.models import GROUP_TARGET, MODEL
from penstock.gateway.config.routing import ROUTING
from penstock.gateway.config.schema import config_schema
from penstock.gateway.config.starter import starter_file
from penstock.gateway.config.targets import TARGET
from tests.effort import examples
from tests.gateway.config.documents import DOCUMENTS, WRONG, written_document
from tests.gateway.config.reading import HASH, PAGE, read

SCHEMA = config_schema()
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)

TOO_MUCH_FOR_A_SCHEMA = re.compile(
    r"not valid TOML|unset|cannot be sent|there is no such file|there is no (target|model) called"
    r"|is already in this chain|demo is a model, not|refers to itself|is also the name|passthrough already"
    r"|another (key|entry)|there is another budget|needs a target|limits: (window|unknown)|after the slash"
    r"|must not contain a user name|socks5|must be only a name or an address|expires = \""
    r"|\$ without a variable|must be a duration$|longer than a year|is not .* own address"
    r"|all weights of this group|is longer than eject_time_max"
)
"""Errors that depend on the environment, on other parts of the file, or on languages within strings."""


def as_json(value: Any) -> Any:
    """The value as an editor passes it to the schema: JSON has no dates."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            return {name: as_json(each) for name, each in value.items()}
        case list():
            return [as_json(each) for each in value]
        case _:
            return value


def accepts(text: str) -> bool:
    return VALIDATOR.is_valid(as_json(tomllib.loads(text)))


def test_the_schema_is_valid_and_describes_every_setting() -> None:
    assert jsonschema_rs.meta.is_valid(SCHEMA)
    for names, rows in (
        (SERVER, schema.SERVER_ROWS),
        (TARGET, schema.TARGET_ROWS),
        (MODEL, schema.MODEL_ROWS),
        (KEY, schema.KEY_ROWS),
        (LIMITS, schema.LIMIT_DESCRIPTIONS),
        (ROUTING, schema.ROUTING_DESCRIPTIONS),
        (GROUP_TARGET, schema.GROUP_ROWS),
    ):
        assert set(names) == set(rows)


def test_the_committed_schema_is_current() -> None:
    committed = json.loads((PAGE.parent / "penstock.schema.json").read_text())
    assert committed == SCHEMA, "run: make docs"


def examples_in_docs() -> list[str]:
    root = PAGE.parents[1]
    blocks = re.compile(r"```toml\n(.*?)```", re.DOTALL)
    ours = re.compile(r"(?m)^\[+(targets|models|server|keys|limits|aliases)")
    pages = [root / "README.md", *sorted(root.glob("docs/**/*.md"))]
    return [block for page in pages for block in blocks.findall(page.read_text()) if ours.search(block)]


@pytest.mark.parametrize("text", examples_in_docs())
def test_every_example_of_the_documentation_is_accepted(text: str) -> None:
    for error in VALIDATOR.iter_errors(as_json(tomllib.loads(text))):
        raise AssertionError(error)


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_wrong_settings_are_rejected_where_a_schema_can_express_it(text: str, message: str) -> None:
    if TOO_MUCH_FOR_A_SCHEMA.search(f"{text}\n{message}"):
        pytest.skip("a schema cannot express this")
    assert not accepts(text)


@given(DOCUMENTS)
@effort(max_examples=examples(400))
def test_the_schema_rejects_nothing_that_the_gateway_accepts(document: dict[str, object]) -> None:
    text = written_document(document)
    try:
        read(text)
    except ConfigError:
        return
    assert "nan" in text or accepts(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[limits]\nbody_bytes = " 64 Mib "\nstore_bytes = "1gB"\nclient_timeout = "off"\nmax_turns = "off"\n',
        '[limits]\npatience = "1.5 m"\nclient_timeout = 0\nledger_days = 1\n',
        '[server]\nmetrics = "[::1]:9464"\nmetrics_token_env = "METRICS_TOKEN"\nhost = "::1"\n',
        f'[[keys]]\nname = "a"\nhash = "{HASH.upper()}"\nbudget = "1_000 Tokens / DAY"\noperator = true\n',
        f'[[keys]]\nname = "a"\nhash = "{HASH}"\nexpires = 2027-01-31 18:00:00\nmodels = ["gpt-*", "*"]\n',
        "[routing]\neject_after = 0\neject_time = 0.5\n",
        '[targets.a]\npreset = "ollama"\n[models.m]\ntargets = [["a", {target = "a/x", weight = 0}], "a/y"]',
        '[targets.a]\nbase_url = "HTTP://[::1]/v1?x=y"\nheaders = {Authorization = "Bearer $SPARE_KEY"}\n',
    ],
)
def test_unusual_but_valid_settings_are_accepted(text: str) -> None:
    read(text)
    assert accepts(text)


def test_a_secret_in_the_file_is_rejected() -> None:
    target = '[targets.a]\nbase_url = "http://127.0.0.1/v1"\n'
    assert not accepts(f'{target}keys = ["sk-planted-1"]\n')
    assert not accepts(f'{target}headers = {{AUTHORIZATION = "Bearer planted"}}\n')
    assert accepts(f'{target}headers = {{X-Title = "planted"}}\n')


def test_the_file_of_init_is_accepted() -> None:
    text = starter_file([], None)
    assert accepts(text)
    assert "#:schema" in text
