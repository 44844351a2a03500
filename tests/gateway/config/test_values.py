"""Sizes, durations, hosts and other values of `penstock.toml`."""

from __future__ import annotations

import pytest

from tests.gateway.config.reading import read


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ('body_bytes = "64MB"', "body_bytes", 64_000_000),
        ('body_bytes = "64MiB"', "body_bytes", 64 * 1024 * 1024),
        ('body_bytes = "1.5 kb"', "body_bytes", 1500),
        ('body_bytes = "2GiB"', "body_bytes", 2 * 1024**3),
        ('body_bytes = "512B"', "body_bytes", 512),
        ("body_bytes = 4096", "body_bytes", 4096),
        ("patience = 0", "patience", 0),
        ("patience = 0.5", "patience", 0.5),
        ('patience = "500ms"', "patience", 0.5),
        ('drain = "5m"', "drain", 300),
        ('drain = "1h"', "drain", 3600),
        ('client_timeout = "off"', "client_timeout", None),
        ("client_timeout = 0", "client_timeout", None),
        ("client_timeout = 30", "client_timeout", 30),
        ('max_turns = "off"', "max_turns", 0),
        ("retries = 0", "retries", 0),
    ],
)
def test_limits_are_read_as_people_write_them(line: str, field: str, value: object) -> None:
    assert getattr(read(f"[limits]\n{line}\n").limits, field) == value


def test_user_agent_prefixes_are_lower_case() -> None:
    assert read('[accents]\n"My-Agent/" = "copilot"').accents == {"my-agent/": "copilot"}


def test_hosts_are_normalised() -> None:
    settings = read('[server]\nhost = "[::1]"\nallowed_hosts = ["Gateway.Example.", "[0:0::1]", "::2"]')
    assert settings.host == "::1"
    assert settings.allowed_hosts == ("gateway.example", "::1", "::2")
