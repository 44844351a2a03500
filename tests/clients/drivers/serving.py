"""The loop of every Python driver: a case per line in, its result per line out."""

import asyncio
import inspect
import json
import sys
import traceback


def serve(cases):
    # The client's own output must not mix with the results.
    results, sys.stdout = sys.stdout, sys.stderr
    # One event loop for all cases: the clients keep connections open between them.
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                made = cases[asked["case"]](asked["model"], **asked["arguments"])
                answer = {"result": runner.run(made) if inspect.iscoroutine(made) else made}
            except Exception:
                answer = {"error": traceback.format_exc()[-1500:]}
            print(json.dumps(answer), file=results, flush=True)
