"""Time from the start of `penstock serve` to the first word of an answer: `python -m bench.first_answer`.

The fastest of many runs counts, because a busy machine only makes a run slower.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

RUNS = 10
BUDGET_MS = 600
RESULT = Path(__file__).parent / "results" / "first_answer.json"
COMMAND = [str(Path(sys.executable).with_name("penstock")), "serve", "--port", "0"]
BODY = json.dumps({"model": "demo", "input": "Hello!", "stream": True})


def measure() -> tuple[float, float]:
    """Return the milliseconds until the gateway is ready, and until the first word of an answer."""
    with tempfile.TemporaryDirectory() as folder:
        # Use compiled files like any installation, and a new store.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["XDG_DATA_HOME"] = folder
        began = perf_counter()
        gateway = subprocess.Popen(
            COMMAND, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert gateway.stdout is not None
        try:
            found = re.search(r"http://(127\.0\.0\.1:\d+)/v1", gateway.stdout.readline())
            assert found is not None, "the gateway did not start"
            ready = perf_counter()
            wait_for_a_word(found[1])
            return 1000 * (ready - began), 1000 * (perf_counter() - began)
        finally:
            gateway.terminate()
            gateway.communicate()


def wait_for_a_word(address: str) -> None:
    connection = http.client.HTTPConnection(address)
    connection.request("POST", "/v1/responses", BODY, {"content-type": "application/json"})
    response = connection.getresponse()
    while line := response.readline():
        if b"response.output_text.delta" in line:
            connection.close()
            return
    raise AssertionError("the answer has no text")


def main() -> int:
    runs = [measure() for _ in range(RUNS)]
    ready, answered = min(run[0] for run in runs), min(run[1] for run in runs)
    result = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "runs": RUNS,
        "budget_ms": BUDGET_MS,
        "ready_ms": round(ready),
        "first_word_ms": round(answered),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(f"From the start of penstock serve, smallest of {RUNS} runs; budget {BUDGET_MS} ms")
    print(f"  ready {ready:.0f} ms, first word of an answer {answered:.0f} ms")
    return 0 if answered < BUDGET_MS else 1


if __name__ == "__main__":
    sys.exit(main())
