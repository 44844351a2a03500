"""The section `[store]`: URLs whose passwords are in environment variables."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest

from penstock.errors import ConfigError
from penstock.gateway.config.file import read_settings
from penstock.gateway.config.options import OptionError, ServeOptions, settings_from
from penstock.gateway.settings import Settings

PASSWORD = "p@ss/word?#:&"
ENVIRONMENT = {"DB_PASSWORD": PASSWORD, "DB_URL": "postgresql://me@db.internal/penstock"}
DATABASE = "postgresql://me@db.internal/penstock"


def settings_of(text: str) -> Settings:
    return read_settings(f"[store]\n{text}\n", file="penstock.toml", environment=ENVIRONMENT)


def error_in(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        settings_of(text)
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


def test_a_password_may_have_any_characters() -> None:
    settings = settings_of('url = "postgresql://me:$DB_PASSWORD@db.internal:5433/penstock"')
    parts = urlsplit(settings.store)
    assert (parts.hostname, parts.port, parts.path) == ("db.internal", 5433, "/penstock")
    assert unquote(parts.password or "") == PASSWORD
    assert PASSWORD not in repr(settings)


def test_a_variable_may_hold_the_whole_url() -> None:
    assert settings_of('url = "$DB_URL"').store == DATABASE


def test_a_path_is_a_file() -> None:
    assert settings_of('url = "/srv/responses.sqlite"').store == "/srv/responses.sqlite"


def test_all_urls_are_read() -> None:
    settings = settings_of(f'''
url = "{DATABASE}?pooler=transaction"
direct_url = "{DATABASE}"
redis = "rediss://cache.internal:6379/0"
''')
    assert settings.store_direct_url == DATABASE
    assert settings.redis == "rediss://cache.internal:6379/0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('url = "postgresql://me:secret@db/penstock"', "put it into an environment variable"),
        ('url = "mysql://db/penstock"', "postgresql://USER@HOST"),
        ('url = "postgresql://me:$NOT_SET@db/penstock"', "NOT_SET is unset"),
        (f'url = "{DATABASE}"\nredis = "http://cache"', "redis://HOST:PORT"),
        ('redis = "redis://cache:6379/0"', "needs a database"),
        (f'direct_url = "{DATABASE}"', "needs a database"),
        (f'url = "{DATABASE}"\n[server]\nstore = "x.sqlite"', "remove one of them"),
        (f'urls = "{DATABASE}"', "url"),
    ],
)
def test_what_cannot_work_is_refused_with_its_line(text: str, words: str) -> None:
    message = error_in(text)
    assert words in message
    assert message.startswith("penstock.toml:")


def from_environment(**variables: str) -> Settings:
    return settings_from(ServeOptions(), None, variables)


def test_variables_name_the_store_and_redis() -> None:
    settings = from_environment(PENSTOCK_STORE=DATABASE, PENSTOCK_REDIS="redis://cache:6379/0")
    assert (settings.store, settings.redis) == (DATABASE, "redis://cache:6379/0")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PENSTOCK_STORE": "mysql://me:planted@db/x"}, "PENSTOCK_STORE: cannot be used"),
        ({"PENSTOCK_REDIS": "redis://cache:6379/0"}, "PENSTOCK_REDIS: only workers that share a database"),
        ({"PENSTOCK_STORE": DATABASE, "PENSTOCK_REDIS": "cache"}, "PENSTOCK_REDIS: cannot be used"),
    ],
)
def test_wrong_variables_are_named(variables: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as raised:
        from_environment(**variables)
    assert words in str(raised.value)
    assert "planted" not in str(raised.value)
