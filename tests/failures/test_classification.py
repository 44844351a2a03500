"""HTTP errors and error objects of every vendor get the right code, message and retry delay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dialects.frames import error_delta
from penstock.failures import ERROR_TYPES, classify
from tests.dialects.block_stream_checks import json_values, objects

ERRORS = objects(
    {
        name: st.sampled_from(["rate_limit_error", "", "500"])
        for name in ("code", "type", "status", "message", "param")
    }
    | {"error": json_values, "details": json_values, "innererror": json_values, "metadata": json_values}
)

BODIES: list[tuple[int, Any, str]] = [
    (400, {"error": {"message": "bad", "type": "invalid_request_error"}}, "invalid_request"),
    (400, {"error": {"code": 400, "message": "m", "status": "FAILED_PRECONDITION"}}, "invalid_request"),
    (400, {"error": {"message": "m", "code": "invalid_prompt"}}, "invalid_prompt"),
    (400, {"error": {"message": "Your credit balance is too low", "type": "x"}}, "insufficient_quota"),
    (400, {"error": {"message": "foo/bar is not a valid model ID", "code": 400}}, "model_not_found"),
    (
        400,
        {
            "error": {
                "message": "The response was filtered",
                "code": "content_filter",
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
        "content_filter",
    ),
    (
        400,
        {"error": {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        "content_filter",
    ),
    (400, {"error": {"message": "API key not valid. Please pass a valid API key."}}, "authentication_error"),
    (401, {"error": {"message": "Incorrect API key provided: sk-…"}}, "authentication_error"),
    (
        402,
        {"error": {"message": "Insufficient Balance", "code": "invalid_request_error"}},
        "insufficient_quota",
    ),
    (403, {"error": "no"}, "permission_denied"),
    (400, {"error": {"code": "429", "message": "no"}}, "rate_limit_exceeded"),
    (400, {"error": {"message": "This model takes no images: not supported"}}, "invalid_request"),
    (404, {"error": "model 'x' not found"}, "model_not_found"),
    (404, {"detail": "Not Found"}, "not_found"),
    (408, {}, "upstream_timeout"),
    (408, {"error": {"message": "no", "type": "invalid_request_error"}}, "upstream_timeout"),
    (408, {"error": {"message": "no", "code": "rate_limit_exceeded"}}, "rate_limit_exceeded"),
    (504, {"error": {"message": "no", "code": 429}}, "rate_limit_exceeded"),
    (500, {"type": "error", "error": {"type": "timeout_error", "message": "no"}}, "upstream_timeout"),
    (504, {"error": {"status": "DEADLINE_EXCEEDED", "message": "no"}}, "upstream_timeout"),
    (422, {"detail": [{"loc": ["body", "x"], "msg": "field required"}]}, "invalid_request"),
    (429, {"error": {"message": "slow", "code": "rate_limit_exceeded"}}, "rate_limit_exceeded"),
    (
        429,
        {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
        "insufficient_quota",
    ),
    (
        429,
        {"error": {"message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED"}},
        "rate_limit_exceeded",
    ),
    (
        413,
        {"error": {"message": "Request too large, tokens per minute", "code": "rate_limit_exceeded"}},
        "rate_limit_exceeded",
    ),
    (500, {"error": {"message": "boom", "type": "server_error"}}, "server_error"),
    (502, b"<html>Bad Gateway</html>", "server_error"),
    (503, {"error": {"message": "no"}}, "server_is_overloaded"),
    (503, {"error": "Model x is currently loading", "estimated_time": 20.0}, "server_is_overloaded"),
    (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "server_is_overloaded",
    ),
    (200, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "insufficient_quota"),
    (
        200,
        {"type": "response.failed", "response": {"error": {"code": "slow_down", "message": "m"}}},
        "server_is_overloaded",
    ),
    (400, {"errors": [{"message": "No such model", "code": 5007}]}, "model_not_found"),
    (400, [{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}], "server_is_overloaded"),
    (400, {"__type": "com.amazon#ThrottlingException"}, "rate_limit_exceeded"),
]


@pytest.mark.parametrize(("status", "body", "code"), BODIES)
def test_a_failure_gets_its_code(status: int, body: Any, code: str) -> None:
    error = classify(status, {}, body if isinstance(body, bytes) else json.dumps(body).encode())
    assert error.code == code
    assert error.type == ERROR_TYPES[code]
    assert error.message


def test_an_error_in_a_stream_gets_its_code() -> None:
    assert error_delta({"error": {"code": 429, "message": "m"}}).code == "rate_limit_exceeded"
    assert error_delta({"message": "m", "code": 503}).code == "server_is_overloaded"
    assert error_delta({"error": {"type": "invalid_request_error", "message": "m"}}).code == "invalid_request"
    assert error_delta({"error": {"type": "not_found_error", "message": "m"}}).code == "model_not_found"
    assert error_delta({"detail": "no"}).message == "no"
    assert error_delta({"error": {"message": "m", "param": "tools"}}).param == "tools"
    assert error_delta({}).code == "server_error"


def test_the_message_is_that_of_the_vendor() -> None:
    assert classify(500, {}, b"plain words").message == "plain words"
    assert classify(500, {}, b"").message == "the upstream returned HTTP 500 and no body"
    assert error_delta(
        {"error": {"message": "Provider returned error", "metadata": {"raw": "why"}}}
    ).message == ("Provider returned error: why")


PAGES: dict[bytes, str] = {
    b"<html><head><title>524: A timeout\n occurred</title><style>p{}</style>": "524: A timeout occurred",
    b"<!DOCTYPE html><html><body><script>var a = 1</script><h1>Bad &amp; gone</h1></body>": "Bad & gone",
    b"\r\n<html><title></title><center><h1>502 Bad Gateway</h1></center>": "502 Bad Gateway",
    b"<html><p>" + b"w" * 5000: "w" * 200,
    b"<html>bad gateway": "bad gateway",
}


@pytest.mark.parametrize("page", PAGES, ids=PAGES.values())
def test_of_a_web_page_only_the_title_or_the_beginning_is_shown(page: bytes) -> None:
    expected = f"the upstream returned HTTP 502 and a web page: {PAGES[page]}"
    assert classify(502, {}, page).message == expected


def test_the_body_of_a_web_page_does_not_decide_the_code() -> None:
    page = b"<html><title>Bad gateway</title><body>Learn about rate limits and invalid API keys</body></html>"
    assert classify(502, {}, page).code == "server_error"


def test_a_web_page_without_text_is_reported_as_a_web_page() -> None:
    assert classify(502, {}, b"<html></html>").message == "the upstream returned HTTP 502 and a web page"


def test_amazon_names_the_error_in_a_header() -> None:
    error = classify(400, {"X-Amzn-ErrorType": "ThrottlingException:http://x"}, b'{"message":"m"}')
    assert error.code == "rate_limit_exceeded"


WAITS: list[tuple[dict[str, str], Any, float | None]] = [
    ({"Retry-After": "3"}, {}, 3.0),
    ({"retry-after-ms": "1500", "retry-after": "2"}, {}, 1.5),
    ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None),
    ({"retry-after": "-1"}, {}, None),
    ({"retry-after": "nan"}, {}, None),
    ({}, {"error": {"details": [{"@type": "x"}, {"retryDelay": "34.5s"}]}}, 34.5),
    ({}, {"error": {"message": "Please try again in 250ms."}}, 0.25),
    ({}, {"error": {"message": "Please try again in 7m12.5s. Need"}}, 432.5),
    ({}, {"error": {"message": "Please retry in 20 seconds"}}, 20.0),
    ({}, {"error": {"message": "Please try again in 2 days"}}, None),
    ({}, {"error": {"message": "Please try again in 1.5s. Visit"}}, 1.5),
    ({}, {}, None),
]


@pytest.mark.parametrize(("headers", "body", "seconds"), WAITS)
def test_the_retry_delay_is_read_from_headers_details_or_text(
    headers: dict[str, str], body: Any, seconds: float | None
) -> None:
    assert classify(429, headers, json.dumps(body).encode()).retry_after == seconds


@given(
    objects({"error": ERRORS, "detail": json_values, "message": json_values}),
    st.integers(100, 599),
    st.dictionaries(st.text(), st.text()),
)
def test_any_json_is_classified(body: dict[str, Any], status: int, headers: dict[str, str]) -> None:
    assert classify(status, headers, json.dumps(body).encode()).code in ERROR_TYPES
    assert error_delta(body).code in ERROR_TYPES


@given(st.binary())
def test_any_bytes_are_classified(body: bytes) -> None:
    assert classify(500, {}, body).code in ERROR_TYPES


@pytest.mark.parametrize("message", ["caf\xe9", "[" * 9999])
def test_json_that_is_not_utf_8_or_nested_too_deeply_is_classified(message: str) -> None:
    """Older servers write their messages in Latin-1."""
    body = f'{{"error": {{"message": "{message}"}}}}'.encode("latin-1")
    assert classify(429, {}, body).code == "rate_limit_exceeded"
    assert classify(429, {}, body.replace(b'"', b"")).code == "rate_limit_exceeded"


MISSING_MODELS: dict[str, tuple[int, Any]] = {
    "openai": (
        404,
        {
            "error": {
                "message": "The model `x` does not exist or you do not have access to it.",
                "type": "invalid_request_error",
                "param": None,
                "code": "model_not_found",
            }
        },
    ),
    "ollama": (404, {"error": "model 'x' not found, try pulling it first"}),
    "ollama, compatible": (
        404,
        {
            "error": {
                "message": 'model "x" not found, try pulling it first',
                "type": "api_error",
                "code": None,
            }
        },
    ),
    "vllm": (
        404,
        {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404},
    ),
    "anthropic": (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}),
    "gemini": (
        404,
        {
            "error": {
                "code": 404,
                "message": "models/x is not found for API version v1beta, or is not supported for "
                "generateContent. Call ListModels to see the list of available models.",
                "status": "NOT_FOUND",
            }
        },
    ),
    "openrouter": (404, {"error": {"message": "No endpoints found for x.", "code": 404}}),
    "openrouter, no id": (400, {"error": {"message": "x is not a valid model ID", "code": 400}}),
    "lm studio": (
        404,
        {"error": {"message": "Model x not found", "type": "invalid_request_error", "param": "model"}},
    ),
    "llama.cpp": (
        400,
        {"error": {"code": 400, "message": "model 'x' not found", "type": "invalid_request_error"}},
    ),
    "azure": (
        404,
        {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}},
    ),
    "plain text": (404, b"model x not found"),
    "openrouter, tools": (
        404,
        {"error": {"message": "No endpoints found that support tool use.", "code": 404}},
    ),
    "openrouter, data policy": (
        404,
        {"error": {"message": "No endpoints found matching your data policy", "code": 404}},
    ),
    "vertex": (
        404,
        {"error": {"code": 404, "message": "Requested entity was not found.", "status": "NOT_FOUND"}},
    ),
    "nim": (
        404,
        {"status": 404, "title": "Not Found", "detail": "Function 'f-1': Not found for account 'a-1'"},
    ),
    "databricks": (
        404,
        {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Endpoint 'x' does not exist."},
    ),
    "azure, by name": (404, {"error": {"code": "404", "message": "Deployment x not found"}}),
    "a code that is also ours": (
        404,
        {"error": {"code": "not_found", "message": "model 'x' was not found"}},
    ),
    "only the parameter": (
        404,
        {"error": {"message": "Not Found", "type": "invalid_request_error", "param": "model"}},
    ),
}


@pytest.mark.parametrize("server", MISSING_MODELS)
def test_a_missing_model_is_recognised(server: str) -> None:
    status, body = MISSING_MODELS[server]
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert classify(status, {}, data).code == "model_not_found"


WRONG_ADDRESSES: dict[str, tuple[int, Any]] = {
    "go": (404, b"404 page not found\n"),
    "nginx": (404, b"<html><head><title>404 Not Found</title></head><body>nginx</body></html>"),
    "fastapi": (404, {"detail": "Not Found"}),
    "fastapi, method": (405, {"detail": "Method Not Allowed"}),
    "express": (404, b"<!DOCTYPE html><title>Error</title><pre>Cannot POST /v1beta/models/x</pre>"),
    "a page about models": (404, b"<html><title>Model not found</title></html>"),
    "nothing": (404, b""),
    "llama.cpp": (
        404,
        {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}},
    ),
    "openai": (
        404,
        {"error": {"message": "Invalid URL (POST /v1/models/x)", "type": "invalid_request_error"}},
    ),
    "openai, method": (
        405,
        {
            "error": {
                "message": "Not allowed to POST on /v1/models (HINT: Perhaps you meant another method?)",
                "type": "invalid_request_error",
                "code": "method_not_supported",
            }
        },
    ),
    "anthropic": (404, {"type": "error", "error": {"type": "not_found_error", "message": "Not Found"}}),
    "groq": (
        404,
        {
            "error": {
                "message": "Unknown request URL: POST /x",
                "type": "invalid_request_error",
                "code": "unknown_url",
            }
        },
    ),
    "azure": (404, {"error": {"code": "404", "message": "Resource not found"}}),
    "kong": (404, {"message": "no Route matched with those values"}),
    "lm studio": (200, {"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
    "python's http.server": (501, b"<!DOCTYPE HTML><html><head><title>Error response</title></head></html>"),
    "a page that takes no JSON": (415, b"<html><title>Unsupported Media Type</title></html>"),
    "a page that takes no POST": (405, b"<html><h1>Method Not Allowed</h1></html>"),
    "spring": (404, {"status": 404, "error": "Not Found", "path": "/v1/models/x"}),
    "nest": (404, {"message": "Cannot POST /v1/x", "error": "Not Found", "statusCode": 404}),
    "fastify": (404, {"message": "Route POST:/v1/x not found", "error": "Not Found", "statusCode": 404}),
    "django": (404, {"detail": "Not found."}),
    "an empty object": (404, {}),
    "text": (404, b"nothing here"),
    "a method without details": (405, {"error": {"message": "no", "type": "invalid_request_error"}}),
    "another penstock": (
        404,
        {
            "error": {
                "code": "not_found",
                "type": "not_found",
                "message": "there is no such path; use another",
            }
        },
    ),
}


@pytest.mark.parametrize("server", WRONG_ADDRESSES)
def test_a_404_without_a_model_in_it_is_about_the_address(server: str) -> None:
    status, body = WRONG_ADDRESSES[server]
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    failure = classify(status, {}, data)
    assert (failure.code, failure.type) == ("not_found", "not_found")


MISSING_OBJECTS: dict[str, Any] = {
    "a file": {"error": {"message": "No such File object: file-abc", "type": "invalid_request_error"}},
    "an item": {"error": {"message": "Item with id 'rs_x' not found.", "type": "invalid_request_error"}},
    "a response": {
        "error": {
            "message": "Previous response with id 'resp_x' not found.",
            "type": "invalid_request_error",
            "param": "previous_response_id",
            "code": "previous_response_not_found",
        }
    },
    "a response, by its code": {"error": {"message": "no", "code": "previous_response_not_found"}},
}


@pytest.mark.parametrize("kind", MISSING_OBJECTS)
def test_a_404_about_an_object_that_the_client_names_is_an_invalid_request(kind: str) -> None:
    assert classify(404, {}, json.dumps(MISSING_OBJECTS[kind]).encode()).code == "invalid_request"


def test_an_invalid_url_in_a_request_is_not_about_the_address() -> None:
    body = {"error": {"message": "Invalid URL (image_url)", "type": "invalid_request_error"}}
    assert classify(400, {}, json.dumps(body).encode()).code == "invalid_request"


def test_a_page_with_another_status_keeps_its_meaning() -> None:
    """A proxy refuses a long body with a page: a shorter conversation helps."""
    page = b"<html><head><title>413 Request Entity Too Large</title></head></html>"
    assert classify(413, {}, page).code == "context_length_exceeded"
    assert classify(501, {}, b'{"error": "no"}').code == "server_error"
    assert classify(415, {}, b'{"error": "no"}').code == "invalid_request"
