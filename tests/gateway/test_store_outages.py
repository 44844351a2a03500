"""While a shared store cannot be reached, what needs it is refused, and all else goes on (decision 34)."""

from __future__ import annotations

from pathlib import Path

from penstock.store.records import LOCAL
from tests.gateway.in_process import Caller, call
from tests.gateway.two_workers import Worker, with_two_workers
from tests.store.workers import until


def test_an_outage_of_a_shared_store(tmp_path: Path) -> None:
    async def body(first: Worker, second: Worker) -> None:
        earlier = await call(second.gateway, input="Hello!")
        running = Caller(first.gateway, input="Count from 1 to 60.", stream=True)
        await running.received(b"output_text.delta")
        (tmp_path / "store.db").rename(tmp_path / "elsewhere")
        await until(lambda: first.store.is_unavailable)

        refused = await call(first.gateway, input="Hello!")
        assert (refused.status, refused.error["code"]) == (503, "store_unavailable")
        assert int(refused.headers["retry-after"]) > 0
        assert (await call(first.gateway, input="Hello!", background=True)).status == 503
        assert (await call(first.gateway, input="Hello!", stream=True)).status == 503
        unstored = await call(first.gateway, input="Hello!", store=False)
        assert (unstored.status, unstored.json["status"]) == (200, "completed")
        history = [*unstored.json["output"], {"role": "user", "content": "And now?"}]
        assert (await call(first.gateway, input=history, store=False)).status == 200

        await running.task
        assert running.response["status"] == "completed"
        codes = [each["code"] for each in running.response["diagnostics"]]
        assert "store_late" in codes

        (tmp_path / "elsewhere").rename(tmp_path / "store.db")
        await until(lambda: not first.store.is_unavailable)
        assert (await call(first.gateway, input="Hello!")).status == 200

        async def is_written() -> bool:
            stored = await second.store.get(LOCAL, running.id)
            return stored is not None and stored.status == "completed"

        await until(is_written)
        shown = await call(second.gateway, f"/v1/responses/{earlier.json['id']}", method="GET")
        assert shown.json["status"] == "completed"

    with_two_workers(tmp_path, body)
