"""Clients of other APIs show their users why this gateway cannot be used with them."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from penstock.gateway.gateway import Gateway
from penstock.gateway.other_apis import OtherApiRequested, refuse_other_api
from penstock.gateway.settings import Settings
from tests.gateway.in_process import call, with_gateway
from tests.gateway.threaded import threaded_gateway

OTHERS = [
    "/v1/chat/completions",
    "/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/messages/",
    "/v1/messages?beta=true",
    "/v1/messages/count_tokens",
    "/v1beta/models/m:generateContent",
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    "/v1/models/m:generateContent",
    "/v1alpha/models/m:countTokens",
]


@pytest.mark.parametrize("path", OTHERS)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_path_of_another_api_is_a_400_with_a_sentence(path: str, method: str) -> None:
    async def test(gateway: Gateway) -> None:
        caller = await call(gateway, path, method=method)
        assert caller.status == 400
        assert "POST /v1/responses" in caller.error["message"]

    with_gateway(test)


@pytest.mark.parametrize(
    "path", ["responses", "models/qwen3:8b", "models/a/b:free", "messagesx", "chat", "embeddings/1"]
)
def test_other_paths_are_not_affected(path: str) -> None:
    refuse_other_api(path)


def test_the_refusal_is_logged_under_one_code() -> None:
    with pytest.raises(OtherApiRequested) as caught:
        refuse_other_api("messages")
    assert (caught.value.status, caught.value.code) == (400, "unsupported_api")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with threaded_gateway(Settings()) as running:
        yield running.address.geturl()


def test_a_client_of_messages_shows_the_sentence(url: str) -> None:
    import anthropic  # here, because every worker imports this file, and this takes a second

    with (
        anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client,
        pytest.raises(anthropic.BadRequestError, match="POST /v1/responses") as caught,
    ):
        client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])
    assert caught.value.body == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": caught.value.body["error"]["message"]},  # type: ignore[index]
    }


def test_a_client_of_chat_completions_shows_the_sentence(url: str) -> None:
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client,
        pytest.raises(openai.BadRequestError, match="POST /v1/responses") as caught,
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert caught.value.code == "unsupported_api"


def test_a_client_of_generate_content_shows_the_sentence(url: str) -> None:
    from google import genai
    from google.genai import errors as genai_errors

    with (
        genai.Client(api_key="any", http_options={"base_url": url}) as client,
        pytest.raises(genai_errors.ClientError, match="POST /v1/responses") as caught,
    ):
        client.models.generate_content(model="m", contents="x")
    assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
