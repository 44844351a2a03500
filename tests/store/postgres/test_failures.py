"""What errors of the database mean."""

from __future__ import annotations

import asyncio
import builtins
from typing import Any

import pytest

from penstock.errors import StoreError
from penstock.store.postgres.failures import (
    failure_of,
    is_conflict,
    is_database_error,
    is_lost,
    is_refusal,
    library,
)


def error_of(state: str) -> Exception:
    class ServerError(library().PostgresError):  # type: ignore[misc]
        pass

    error: Exception = ServerError("secret data")
    error.sqlstate = state  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("08006", StoreError.UNREACHABLE),
        ("57P01", StoreError.UNREACHABLE),
        ("57014", StoreError.BUSY),
        ("53100", StoreError.FULL),
        ("53300", StoreError.BUSY),
        ("40P01", StoreError.BUSY),
        ("55P03", StoreError.BUSY),
        ("25006", StoreError.UNREACHABLE),
        ("28P01", StoreError.DENIED),
        ("42501", StoreError.DENIED),
        ("3D000", StoreError.MISSING),
        ("42P01", StoreError.OLDER_VERSION),
        ("23505", StoreError.DUPLICATE),
        ("22021", StoreError.IO),
        ("XX000", StoreError.IO),
    ],
)
def test_each_error_has_a_code_and_a_message_of_our_own(state: str, code: str) -> None:
    found, message = failure_of(error_of(state))
    assert found == code
    assert "secret" not in message


def test_a_pooler_is_recognized_by_its_errors() -> None:
    for state in ("42P05", "26000"):
        assert "?pooler=transaction" in failure_of(error_of(state))[1]


def test_errors_of_the_connection_mean_that_the_database_is_away() -> None:
    for error in (OSError(), ConnectionResetError(), TimeoutError(), library().InterfaceError("closed")):
        assert failure_of(error)[0] == StoreError.UNREACHABLE
        assert is_lost(error)
        assert is_database_error(error)


def test_after_which_errors_a_connection_is_dropped() -> None:
    assert is_lost(asyncio.CancelledError())
    assert is_lost(error_of("57P01"))
    assert is_lost(error_of("25006"))
    assert not is_lost(error_of("23505"))
    assert not is_lost(StoreError(StoreError.IO, ""))
    assert not is_lost(ValueError())


def test_what_is_tried_again_and_what_never_is() -> None:
    assert is_conflict(error_of("40001"))
    assert is_conflict(error_of("40P01"))
    assert not is_conflict(error_of("22021"))
    assert is_refusal(error_of("22021"))
    assert is_refusal(error_of("54000"))
    assert not is_refusal(error_of("40001"))
    assert not is_refusal(error_of("57P01"))


def test_errors_of_our_own_are_not_errors_of_the_database() -> None:
    assert not is_database_error(ValueError())
    assert not is_database_error(StoreError(StoreError.IO, ""))


def test_a_missing_library_is_an_error_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without_asyncpg(name: str, *args: Any, **options: Any) -> Any:
        if name == "asyncpg":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_asyncpg)
    with pytest.raises(StoreError) as caught:
        library()
    assert caught.value.code == StoreError.NOT_INSTALLED
    assert "pip install 'penstock[postgres]'" in caught.value.message
