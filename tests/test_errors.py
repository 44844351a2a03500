"""The exceptions: one tree, with messages that say where and what."""

from __future__ import annotations

import inspect

import pytest

from penstock import errors
from penstock.errors import ConfigError, DecodeError, FrameTooLarge, OpenResponsesError, PenstockError

CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, Exception)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_exception_is_in_the_tree_at_the_top_of_the_module(kind: type[Exception]) -> None:
    assert issubclass(kind, PenstockError)
    line = next(line for line in (errors.__doc__ or "").splitlines() if kind.__name__ in line.split())
    parent = kind.__mro__[1]
    depth = (
        0
        if kind is PenstockError
        else len([each for each in kind.__mro__ if issubclass(each, PenstockError)])
    )
    indent = len(line) - len(line.lstrip("│├└─ "))
    assert indent == 4 * max(0, depth - 1), f"{kind.__name__} is not drawn below {parent.__name__}"


def test_the_path_of_a_decode_error_grows_from_the_inside() -> None:
    error = DecodeError("is required")
    assert str(error) == "is required"
    error = error.within("call_id").within("[2]").within("input")
    assert (error.param, str(error)) == ("input[2].call_id", "input[2].call_id: is required")
    assert DecodeError("x").within("[0]").within("[1]").param == "[1][0]"


def test_a_config_error_contains_all_problems_of_the_file() -> None:
    first, second = ConfigError("a.toml", 3, "unknown key"), ConfigError("a.toml", 0, "no targets")
    assert (str(first), first.errors) == ("a.toml:3: unknown key", [first])
    assert str(second) == "a.toml: no targets"
    both = ConfigError("a.toml", 3, "unknown key", [first, second])
    assert str(both).splitlines() == ["a.toml:3: unknown key", "a.toml: no targets"]
    assert both.errors == [first, second]


def test_an_endpoint_error_quotes_the_request_id_and_has_a_code() -> None:
    error = errors.RateLimitError("slow down", request_id="req_1", retry_after=2.5)
    assert str(error) == "slow down (request req_1)"
    assert (error.message, error.code, error.retry_after) == ("slow down", "rate_limit_exceeded", 2.5)
    assert errors.RateLimitError("no money", code="insufficient_quota").code == "insufficient_quota"


def test_a_request_id_that_a_gateway_wrote_into_its_message_is_not_repeated() -> None:
    error = errors.ServerError("no answer (request req_1)", request_id="req_1")
    assert str(error) == "no answer (request req_1)"


def test_the_exceptions_for_codes_have_codes_of_their_own() -> None:
    kinds: set[type[OpenResponsesError]] = {*errors.KINDS.values(), errors.NetworkError, errors.ProtocolError}
    assert len({kind.default_code for kind in kinds}) == len(kinds)
    assert all(issubclass(kind, OpenResponsesError) for kind in kinds)


def test_a_frame_that_is_too_large_names_the_limit() -> None:
    assert str(FrameTooLarge(1024)) == "a server-sent event is larger than the limit of 1024 bytes"
