"""The settings of a client: validation, and no secret in a repr."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import pytest

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.client.sync import SyncOpenResponsesClient
from penstock.errors import InvalidRequestError

KEY = "sk-test-0123456789"


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"base_url": "host/v1"}, "base_url"),
        ({"proxy": "socks5://host"}, "proxy"),
        ({"connect_timeout": 0}, "connect_timeout"),
        ({"first_byte_timeout": -1}, "first_byte_timeout"),
        ({"idle_timeout": float("nan")}, "idle_timeout"),
        ({"retries": -1}, "retries"),
        ({"resumes": -1}, "resumes"),
        ({"max_retry_wait": float("nan")}, "max_retry_wait"),
        ({"client_key": "key.pem"}, "client_key"),
        ({"headers": {"x": f"{KEY}\r\nevil: 1"}}, "headers"),
        ({"headers": {"x y": KEY}}, "headers"),
    ],
)
def test_an_invalid_setting_is_refused_at_once_with_its_name(settings: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ClientConfig(**{"base_url": "http://host", **settings})
    assert caught.value.param == param
    assert KEY not in str(caught.value)


def test_timeouts_may_be_none() -> None:
    ClientConfig("http://host", connect_timeout=None, first_byte_timeout=None, idle_timeout=None, proxy="")


def test_no_secret_is_in_a_repr() -> None:
    config = ClientConfig(
        f"http://host/v1?token={KEY}",
        key=functools.partial(str, KEY),
        headers={"api-key": KEY},
        proxy=f"http://me:{KEY}@proxy:1",
    )
    assert repr(config) == "ClientConfig(base_url='http://host/v1', key=set, headers=['api-key'])"
    for shown in (repr(OpenResponsesClient(config)), repr(SyncOpenResponsesClient(config))):
        assert KEY not in shown
        assert "OpenResponsesClient(ClientConfig(" in shown


def test_the_http_parser_is_not_imported_before_the_first_request() -> None:
    code = (
        "import sys, penstock.client.client, penstock.client.sync, penstock.client.config as config\n"
        "penstock.client.sync.SyncOpenResponsesClient(config.ClientConfig('http://host')).close()\n"
        "assert 'httptools' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_settings_do_not_import_asyncio() -> None:
    code = "import sys, penstock.client.config; assert not {'httptools', 'asyncio', 'ssl'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
