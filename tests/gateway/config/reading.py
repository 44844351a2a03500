"""Reading settings in tests: a file as text, an environment, and the errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.gateway.config.file import read_settings
from penstock.gateway.settings import Settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"


ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-openai",
    "ANTHROPIC_API_KEY": "sk-ant",
    "OPENROUTER_API_KEY": "sk-or-1",
    "METRICS_TOKEN": "scraper-token",
    "SPARE_KEY": "sk-or-2\n",
    "CUSTOMER_TOKEN": "customer-secret",
    "BROKEN": "two\nlines",
    "EMPTY": " ",
}


LOCAL = '[targets.local]\nbase_url = "http://127.0.0.1:8000/v1"\n'


HASH = "sha256:" + "ab" * 32


def read(text: str, **more: str) -> Settings:
    return read_settings(text, file="penstock.toml", environment={**ENVIRONMENT, **more})


def errors(text: str, **more: str) -> list[str]:
    """All errors, without the name of the file."""
    with pytest.raises(ConfigError) as caught:
        read(text, **more)
    text_of_all = str(caught.value)
    for name, secret in ENVIRONMENT.items():
        assert secret.strip() == "" or secret.strip() not in text_of_all, name
    assert text_of_all == "\n".join(map(str, caught.value.errors))
    return [str(error).removeprefix("penstock.toml:") for error in caught.value.errors]


def read_or_errors(text: str) -> tuple[Settings | None, list[ConfigError]]:
    try:
        return read(text), []
    except ConfigError as error:
        return None, error.errors
