"""How many input tokens upstreams find in their prompt caches: `python -m bench.routing`.

A real gateway with two workers and scripted upstreams with prompt caches (`bench.prefix_caches`): for each of
two API formats, two equal targets with two keys each. Many conversations of an agent run at the same time, a
turn of one after a turn of another, each request on a new connection. Some continue by
`previous_response_id`, some send their whole history. The cases take turns, with the same conversations:

- *affinity*: the defaults;
- *no affinity*: `affinity = false`, so each turn goes to any key of any target;
- *a target is added*, with and without affinity, in the middle of the conversations.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import as_markdown
from bench.prefix_caches import CachingUpstream, caching_upstreams
from bench.report import machine, with_parts

RESULT = Path(__file__).parent / "results" / "routing.json"
ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "routing.md"

DIALECTS = ("chat", "anthropic")
STYLES = ("previous_response_id", "whole history", "whole history, prompt_cache_key")
CONVERSATIONS, TURNS, ADDED_BEFORE, ROUNDS, CLIENTS = 36, 8, 4, 3, 8
"""`ADDED_BEFORE`: the turn before which the third target is added."""
KEYS = {"BENCH_KEY_1": "sk-bench-one-12345", "BENCH_KEY_2": "sk-bench-two-12345"}
PATIENCE = 30.0

Json = dict[str, Any]

INSTRUCTIONS = "You are an agent that changes programs. " + "Follow the rules of the project. " * 200
TOOLS = [
    {
        "type": "function",
        "name": name,
        "description": "A tool of the agent. " * 12,
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
    for name in ("read_file", "write_file", "run_tests", "search")
]


class Conversation:
    """A conversation, and the usage of each of its turns."""

    def __init__(self, name: str, model: str, style: str) -> None:
        self.model, self.style = model, style
        self.usage: list[tuple[int, int]] = []
        """The input tokens of each turn, and how many of them were cached."""
        self._name = name
        self._history: list[Json] = []
        self._previous = ""

    def take_turn(self, port: int) -> None:
        turn = len(self.usage)
        asked = f"{self._name}, task {turn}. " + f"The file {self._name}-{turn} contains this line. " * 60
        message = {"role": "user", "content": asked}
        body: Json = {"model": self.model, "instructions": INSTRUCTIONS, "tools": TOOLS}
        if self.style == "previous_response_id":
            body |= {"input": [message], **({"previous_response_id": self._previous} if turn else {})}
        else:
            self._history.append(message)
            body |= {"input": self._history, "store": False}
        if "prompt_cache_key" in self.style or self.model == "anthropic":
            body["prompt_cache_key"] = self._name  # Anthropic caches only if the client asks for it
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request(
                "POST", "/v1/responses", json.dumps(body), {"content-type": "application/json"}
            )
            answer = connection.getresponse()
            response = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {response}")
        usage = response["usage"]
        self.usage.append((usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]))
        self._previous = response["id"]
        self._history += response["output"]


def configuration(upstreams: list[CachingUpstream], *, affinity: bool, groups: dict[str, list[str]]) -> str:
    text = f"[routing]\naffinity = {str(affinity).lower()}\n"
    for place, upstream in enumerate(upstreams):
        text += f'[targets.t{place}]\nbase_url = "{upstream.url}"\ndialect = "{upstream.dialect}"\n'
        text += f"keys = {json.dumps(list(KEYS))}\n"
    for dialect, names in groups.items():
        text += f"[models.{dialect}]\ntargets = [{json.dumps(names)}]\n"
    return text


@contextmanager
def gateway(folder: Path, config: Path) -> Iterator[tuple[int, Path]]:
    """Run a gateway with two workers; yield its port and its log."""
    ready, log = folder / "ready", folder / "log"
    options = ["--config", str(config), "--port", "0", "--ready-file", str(ready), "--workers", "2"]
    options += ["--store", str(folder / "store.sqlite")]
    environment = {**os.environ, **KEYS, "PYTHONPATH": str(ROOT / "src")}
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "serve", *options],
            stdout=written,
            stderr=written,
            cwd=folder,
            env=environment,
        )
        try:
            wait_for(lambda: ready.exists() and ready.read_text().strip() != "", log)
            yield int(ready.read_text().strip().rpartition(":")[2]), log
        finally:
            process.terminate()
            process.wait(30)


def wait_for(condition: Any, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the gateway is not ready:\n{log.read_text()[-2000:]}")
        time.sleep(0.02)


def run(seed: int, *, affinity: bool, adds_target: bool) -> list[Conversation]:
    """Run all conversations, in an order that the seed decides."""
    order = random.Random(seed)
    conversations = [
        Conversation(f"{seed}-{number}", DIALECTS[number % 2], STYLES[number // 2 % len(STYLES)])
        for number in range(CONVERSATIONS)
    ]
    groups = {"chat": ["t0", "t1"], "anthropic": ["t2", "t3"]}
    dialects = ("chat", "chat", "anthropic", "anthropic", "chat", "anthropic")
    with (
        tempfile.TemporaryDirectory() as place,
        caching_upstreams(*dialects) as upstreams,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        config = Path(place) / "penstock.toml"
        config.write_text(configuration(upstreams, affinity=affinity, groups=groups))
        with gateway(Path(place), config) as (port, log):
            for turn in range(TURNS):
                if adds_target and turn == ADDED_BEFORE:
                    more = {"chat": [*groups["chat"], "t4"], "anthropic": [*groups["anthropic"], "t5"]}
                    config.write_text(configuration(upstreams, affinity=affinity, groups=more))
                    wait_for(lambda: "the settings were reloaded" in log.read_text(), log)
                order.shuffle(conversations)
                list(pool.map(Conversation.take_turn, conversations, [port] * CONVERSATIONS))
        used = [len(upstream.requests) for upstream in upstreams]
        if set(used[:4]) != {len(KEYS)} or (adds_target and 0 in used[4:]):
            raise RuntimeError(f"some targets or keys were not used: {used}")
    return conversations


def possible_rate(conversations: list[Conversation]) -> float:
    """Return the part of the input tokens that can be cached: all but what is new in each turn."""
    usage = [pair for each in conversations for pair in zip(each.usage, each.usage[1:], strict=False)]
    return sum(before[0] for before, _ in usage) / sum(now[0] for _, now in usage)


def hit_rate(conversations: list[Conversation], turns: slice = slice(1, None)) -> float:
    """Return the part of the input tokens that was cached. First turns have nothing in a cache of their own,
    so they are left out."""
    usage = [each for conversation in conversations for each in conversation.usage[turns]]
    return sum(cached for _, cached in usage) / sum(total for total, _ in usage)


CASES = {
    "affinity": {"affinity": True, "adds_target": False},
    "no affinity": {"affinity": False, "adds_target": False},
    "affinity, a target is added": {"affinity": True, "adds_target": True},
    "no affinity, a target is added": {"affinity": False, "adds_target": True},
}


def measure() -> dict[str, object]:
    runs: dict[str, list[list[Conversation]]] = {name: [] for name in CASES}
    for number in range(ROUNDS):
        for name, case in CASES.items():
            runs[name].append(run(number, **case))
            print(f"round {number}, {name}: {hit_rate(runs[name][-1]):.1%}", flush=True)
    chosen = {
        **{f"{dialect}, {style}": (dialect, style) for dialect in DIALECTS for style in STYLES},
        "all": ("", ""),
    }
    rates = {
        row: {
            name: _middle([hit_rate(_of(each, *which)) for each in found])
            for name, found in runs.items()
            if not CASES[name]["adds_target"]
        }
        for row, which in chosen.items()
    }
    after = slice(ADDED_BEFORE, None)
    later = {name: _middle([hit_rate(each, after) for each in found]) for name, found in runs.items()}
    ratios = [
        hit_rate(one) / hit_rate(other)
        for one, other in zip(runs["affinity"], runs["no affinity"], strict=True)
    ]
    return {
        "conversations": CONVERSATIONS,
        "turns": TURNS,
        "rounds": ROUNDS,
        "hit_rate": rates,
        "possible": round(possible_rate(runs["affinity"][0]), 4),
        "ratio": _middle(ratios),
        "uncached_ratio": _middle(
            [
                (1 - hit_rate(one)) / (1 - hit_rate(other))
                for one, other in zip(runs["affinity"], runs["no affinity"], strict=True)
            ]
        ),
        "hit_rate_after_adding": later,
    }


def _of(conversations: list[Conversation], dialect: str, style: str) -> list[Conversation]:
    return [each for each in conversations if dialect in ("", each.model) and style in ("", each.style)]


def _middle(values: list[float]) -> dict[str, float]:
    return {
        "median": round(median(values), 4),
        "least": round(min(values), 4),
        "most": round(max(values), 4),
    }


def tables(results: Json) -> str:
    """Return the results as tables."""

    def shown(found: dict[str, float]) -> str:
        return f"{found['median']:.1%} ({found['least']:.1%} to {found['most']:.1%})"

    rows = [(name, *(shown(each) for each in sides.values())) for name, sides in results["hit_rate"].items()]
    later = results["hit_rate_after_adding"]
    added = [
        (side, shown(later[side]), shown(later[f"{side}, a target is added"]))
        for side in ("affinity", "no affinity")
    ]
    ratio, uncached = results["ratio"], results["uncached_ratio"]
    how = (
        f"Measured on {machine()}: {results['conversations']} conversations of {results['turns']} turns, two "
        f"workers, four keys for each API format. Medians of {results['rounds']} runs, with least and most."
    )
    saved = (
        f"The hit rate with affinity is {ratio['median']:.2f} times the one without, and only "
        f"{uncached['median']:.0%} as many tokens are not cached. At most {results['possible']:.1%} can be: "
        "the rest is new in each turn."
    )
    turns = f"turns {ADDED_BEFORE + 1} to {TURNS}"
    return "\n\n".join(
        (
            how,
            as_markdown(("conversations", "cached, with affinity", "cached, without"), rows),
            saved,
            as_markdown((turns, "two targets", "a third one was added before them"), added),
        )
    )


def main() -> int:
    results: Json = {**measure(), "load_average": [round(each, 1) for each in os.getloadavg()]}
    RESULT.write_text(json.dumps(results, indent=2) + "\n")
    print(tables(results))
    if PAGE.exists():
        PAGE.write_text(with_parts(PAGE.read_text(), {"routing": tables(results)}))
    return 0 if results["ratio"]["median"] > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
