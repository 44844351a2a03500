"""Where the time of a chunk goes: the translation alone, in this process and without I/O.

`python -m bench.layers` prints µs of CPU per text chunk of Chat Completions as JSON. It uses only public
names, so it can measure other versions of Penstock. The rest of a chunk's cost is what the gateway adds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time

import msgspec

from bench.figures import Figure, shown

ROOT = Path(__file__).parent.parent
CHUNK = (
    b'data: {"id":"chatcmpl-fake00000001","object":"chat.completion.chunk","created":1760000000,"model":"m",'
    b'"system_fingerprint":"fp_fake","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,'
    b'"finish_reason":null}]}\n\n'
)
CHUNKS, ROUNDS = 5_000, 9


def microseconds(work: Callable[[], None]) -> float:
    """Return CPU time per chunk, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = process_time()
        work()
        best = min(best, process_time() - begin)
    return round(1e6 * best / CHUNKS, 2)


def decode() -> None:
    data = CHUNK[6:]
    for _ in range(CHUNKS):
        msgspec.json.decode(data)


def translate(chunks_per_read: int) -> Callable[[], None]:
    """Bytes to bytes: decode, read, number, encode, frame."""
    from penstock import (
        CreateResponse,
        Pipeline,
        ResponseStreamStateMachine,
        dialect,
        encode,
        encode_frame,
        plan_for,
        response_for,
        target_for,
    )

    request = CreateResponse(model="m", input="x")
    plan = plan_for(request, target_for("m", "chat"))
    data = CHUNK * chunks_per_read

    def work() -> None:
        response = response_for(request, id="resp_1", created_at=0)
        pipeline = Pipeline(ResponseStreamStateMachine(response, clock=lambda: 0, tools=plan.tools))
        pipeline.open(dialect("chat"), plan)
        pipeline.start()
        for _ in range(CHUNKS // chunks_per_read):
            for event in pipeline.feed(data):
                encode_frame(event.type, encode(event))

    return work


def measure() -> dict[str, float]:
    return {
        "decode": microseconds(decode),
        "translate, many chunks per read": microseconds(translate(50)),
        "translate, one chunk per read": microseconds(translate(1)),
    }


def measured(checkout: Path = ROOT) -> dict[str, float]:
    """Measure another checkout in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.layers"], env=environment, cwd=ROOT, capture_output=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


HEADINGS = ("layer", "µs per chunk")


def rows(
    layers: Mapping[str, float], figures: Mapping[str, Figure], shares: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Split the cost of a chunk in a flood and of a paced one by subtraction."""
    found = [("decoding its JSON with msgspec, nothing else", shown(layers["decode"]))]
    for key, share, title, translated in (
        ("flood", "flood penstock", "flood", layers["translate, many chunks per read"]),
        ("paced-64", "paced 64 penstock", "paced, 64 streams", layers["translate, one chunk per read"]),
    ):
        total = figures[key].best("penstock") if key in figures else None
        if total is None:
            continue
        kernel = total * shares.get(share, 0)
        found += [
            (f"**{title}: all**", f"**{shown(total)}**"),
            (f"{title}: translation, from bytes to frames", shown(translated)),
            (f"{title}: kernel (sockets, wake-ups)", shown(kernel)),
            (f"{title}: the rest (event loop, HTTP, turn, log)", shown(total - kernel - translated)),
        ]
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
