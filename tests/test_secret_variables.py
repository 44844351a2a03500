"""Secrets in the files that variables name, as Docker, Kubernetes and systemd provide them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.secret_variables import is_set, secret_variable

PLANTED = "sk-planted-secret"


def test_a_variable_comes_before_nothing() -> None:
    assert secret_variable("KEY", {"KEY": f" {PLANTED}\n"}) == PLANTED
    assert secret_variable("KEY", {}) == ""
    assert secret_variable("KEY", {"KEY": " ", "KEY_FILE": " "}) == ""
    assert not is_set("KEY", {"KEY": ""})


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "key"
    for secret in (PLANTED, "the next one"):
        file.write_text(f"{secret}\n")
        assert secret_variable("KEY", {"KEY_FILE": str(file), "KEY": ""}) == secret
    assert is_set("KEY", {"KEY_FILE": str(file)})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "names a file that cannot be read: No such file or directory"),
        (b" \n", "names an empty file"),
        (b"\xff", "names a file that is not UTF-8 text"),
        (b"x" * 70_000, "names a file of more than 65536 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        secret_variable("KEY", {"KEY_FILE": str(file)})
    assert caught.value.file == "KEY_FILE"
    assert is_set("KEY", {"KEY_FILE": str(file)}), "so that the error is reported where the value is read"


def test_no_message_has_a_value() -> None:
    """Somebody may write the secret itself into `KEY_FILE`."""
    for path, value in ((PLANTED, ""), (f"{PLANTED}\0", ""), ("/x", PLANTED)):
        with pytest.raises(ConfigError) as caught:
            secret_variable("KEY", {"KEY_FILE": path, "KEY": value})
        assert PLANTED not in str(caught.value)


def test_a_variable_and_its_file_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KEY_FILE: is set, and KEY as well: unset one of them"):
        secret_variable("KEY", {"KEY": "a", "KEY_FILE": str(tmp_path)})
