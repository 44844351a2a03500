"""A program in the place of `codex`: it records how it was started, and does what its last arguments say.

ask PROMPT       send the prompt to the gateway, and print the answer
stray            send a request without the key, and print the status
exit CODE, die SIGNAL
wait             print `ready`, wait for a signal, and print it with the status of a request without the key
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tomllib
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any


def settings(arguments: list[str]) -> dict[str, Any]:
    """Return what the `-c` options say, as Codex reads them."""
    found: dict[str, Any] = {}
    for flag, value in pairwise(arguments):
        if flag == "-c":
            _merge(found, tomllib.loads(value))
    return found


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for name, value in new.items():
        if isinstance(value, dict):
            _merge(into.setdefault(name, {}), value)
        else:
            into[name] = value


def request(url: str, key: str, body: dict[str, Any]) -> tuple[int, Any]:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    asked = urllib.request.Request(f"{url}/responses", json.dumps(body).encode(), headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def act(words: list[str], config: dict[str, Any]) -> int:
    provider = config["model_providers"][config["model_provider"]]
    url, key = provider["base_url"], os.environ[provider["env_key"]]
    match words:
        case [*_, "ask", prompt]:
            _, answer = request(url, key, {"model": config["model"], "input": prompt, "store": False})
            parts = [part for item in answer.get("output", []) for part in item.get("content") or []]
            print("".join(part.get("text", "") for part in parts) or json.dumps(answer))
        case [*_, "stray"]:
            print(request(url, "", {"model": config["model"], "input": "Hello!"})[0])
        case [*_, "exit", code]:
            return int(code)
        case [*_, "die", number]:
            os.kill(os.getpid(), int(number))
        case [*_, "wait"]:
            numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
            signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
            print("ready", flush=True)
            name = signal.Signals(signal.sigwait(numbers)).name
            print(name, request(url, "", {"model": config["model"], "input": "Hello!"})[0])
            return 7
    return 0


def main() -> int:
    arguments = sys.argv[1:]
    config = settings(arguments)
    catalog = Path(config["model_catalog_json"])
    seen = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "config": config,
        "catalog": json.loads(catalog.read_text()),
        "folder": str(catalog.parent),
        "mode": catalog.parent.stat().st_mode & 0o777,
        "parent": Path(f"/proc/{os.getppid()}/cmdline").read_text() if os.path.exists("/proc") else "",
        "terminal": [os.isatty(number) for number in range(3)],
        "pid": os.getpid(),
    }
    if os.isatty(0):
        seen["foreground"] = os.tcgetpgrp(0) == os.getpgrp()
        seen["size"] = list(os.get_terminal_size(0))
    Path(os.environ["FAKE_CODEX"]).write_text(json.dumps(seen))
    return act(arguments, config)


if __name__ == "__main__":
    sys.exit(main())
