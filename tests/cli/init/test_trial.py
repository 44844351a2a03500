"""One short request to a model, through a gateway with the new settings."""

from __future__ import annotations

import pytest

from penstock.cli.init.trial import Trial, try_models
from penstock.gateway.config.file import read_settings
from penstock.gateway.settings import Settings
from tests.client.server import Script, answer, run, stall
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.upstream import begun, said, streamed
from tests.upstream.local_servers import LocalServer, listed

KEY = "sk-planted-0123456789"


def settings_for(server: LocalServer) -> Settings:
    text = f'passthrough = "mine"\n[targets.mine]\nbase_url = "{server.url}/v1"\nkeys = ["MY_KEY"]'
    return read_settings(text, file="penstock.toml", environment={"MY_KEY": KEY})


def tried(chat: Script, *others: str, limit: float = 10.0) -> list[Trial]:
    """Return the trials of a model that answers like this, and of others."""

    async def test() -> list[Trial]:
        async with LocalServer(listed("m"), chat=chat) as server:
            trials = await try_models(settings_for(server), ["m", *others], limit=limit)
            assert sorted(asked.json["model"] for asked in server.chats) == ["m", *others]
            assert all(asked.json["stream"] for asked in server.chats)
            assert {asked.headers["authorization"] for asked in server.chats} == {f"Bearer {KEY}"}
            return trials

    found = run(test())
    assert KEY not in str(found)
    return found


def test_the_text_of_the_answer_is_returned() -> None:
    trials = tried(streamed(*said("Hello!")), "n")
    assert trials == [Trial(model="m", text="Hello!"), Trial(model="n", text="Hello!")]


def test_an_answer_that_is_cut_off_by_its_limit_is_an_answer() -> None:
    cut = streamed(chat_chunk({"content": "Hel"}), chat_chunk({}, finish="length"))
    assert tried(cut)[0] == Trial(model="m", text="Hel")


@pytest.mark.parametrize(
    ("chat", "problem"),
    [
        ([answer(401, {"error": {"message": f"the key {KEY} is wrong"}})], "MY_KEY"),
        ([answer(404, {"error": {"message": "no such model"}})], "no such model"),
        (begun(chat_chunk({"content": "a"})), "ended"),
    ],
)
def test_a_failure_is_returned_as_a_sentence_and_not_repeated(chat: Script, problem: str) -> None:
    (mine,) = tried(chat)
    assert problem in mine.problem


def test_a_model_that_does_not_answer_is_given_up() -> None:
    assert tried([stall], limit=0.3)[0].problem == "no answer within 0.3 seconds"
