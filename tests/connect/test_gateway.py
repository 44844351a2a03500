"""Where the gateway is, and what it says about itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connect.gateway import local_settings, url_of_settings
from penstock.gateway.config.options import OptionError
from penstock.gateway.settings import Settings


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, "http://127.0.0.1:9001/v1"),
        ({"PENSTOCK_PORT": "9002"}, "http://127.0.0.1:9002/v1"),
        ({"PENSTOCK_HOST": "::1"}, "http://[::1]:9001/v1"),
        ({"PENSTOCK_CONFIG": "other.toml"}, "http://127.0.0.1:9003/v1"),
    ],
)
def test_the_file_and_the_variables_determine_the_address(
    environment: dict[str, str], url: str, tmp_path: Path
) -> None:
    (tmp_path / "penstock.toml").write_text("[server]\nport = 9001\n")
    (tmp_path / "other.toml").write_text("[server]\nport = 9003\n")
    assert url_of_settings(local_settings(tmp_path, environment)) == url


def test_a_certificate_means_https() -> None:
    assert url_of_settings(Settings(tls_cert="c", tls_key="k")) == "https://127.0.0.1:8080/v1"


def test_a_free_port_is_not_an_address() -> None:
    with pytest.raises(OptionError, match="--base-url"):
        url_of_settings(Settings(port=0))
