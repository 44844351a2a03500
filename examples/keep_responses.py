"""Keep responses without a server: the persistence step of the stream state machine design."""

import asyncio
import tempfile
import time
from pathlib import Path

import penstock as p


async def main(path: Path) -> None:
    request = p.CreateResponse(model="mine", input="Hello!")
    response = p.response_for(request, id="resp_1", created_at=int(time.time()))
    machine = p.ResponseStreamStateMachine(response, clock=time.time)

    store = await p.open_store(path)
    opened = p.Opened(id=response.id, created_at=response.created_at, response=p.encode(response))
    keeper = p.StoreKeeper(store, opened)
    for events in (machine.start(), machine.text("Hi."), machine.finish(p.FinishReason.STOP)):
        for event in await keeper.keep(events):
            print("kept", event.sequence_number, event.type)  # send it to a client here
    await store.aclose()

    store = await p.open_store(path)  # as after a restart
    stored = await store.get("local", "resp_1")
    assert stored is not None
    print("stored:", stored.status, repr(p.decode(stored.response, p.Response).output_text))
    print("events after 5:", [logged.sequence async for logged in store.events("local", "resp_1", after=5)])
    await store.aclose()


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder, "responses.sqlite")))
