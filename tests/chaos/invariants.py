"""What must hold at the end, whatever has failed."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.chaos.clients import ENDINGS, Call, Clients, Json, is_late
from tests.chaos.site import KEYS_OF_THE_DEAD, Site
from tests.chaos.upstream import words_of

_AT_ONCE = 8


async def check(name: str, site: Site, clients: Clients, *, workers_died: bool = False) -> Counter[str]:
    """Check all invariants, print the counts, and return them. `workers_died`: keys may still be held."""
    left = await site.settled()
    if workers_died:
        clients.counts[KEYS_OF_THE_DEAD] = left.pop(KEYS_OF_THE_DEAD, 0)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def check_one(call: Call) -> list[str]:
        async with gate:
            return await _problems_of(clients, call)

    found = await asyncio.gather(*(check_one(call) for call in clients.calls))
    problems = [f"{call!r}: {text}" for call, some in zip(clients.calls, found, strict=True) for text in some]
    for turn, number in site.upstream.calls.items():
        if number > 1 and number > 1 + await site.abandoned(turn):
            problems.append(f"{turn} ran {number} times")
    problems += [f"left behind: {left}"] if left else []
    problems += [f"logged: {line}" for line in site.faults()]
    counts = _counts(site, clients)
    print(f"\n{name}: " + ", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
    if problems:
        print("\n".join(f"problem: {text}" for text in problems[:40]))
    assert problems == [], "\n".join([f"{len(problems)} problems", *problems[:40]])
    return counts


def _counts(site: Site, clients: Clients) -> Counter[str]:
    counts = clients.counts.copy()
    counts["turns"] = len(clients.calls)
    counts["upstream calls"] = site.upstream.calls.total()
    for call in clients.calls:
        if call.was_never_stored:
            counts["lost before the late store had them"] += 1
        if call.is_lost:
            counts["lost to their clients"] += 1
        if call.last is not None:
            code = (call.last.get("error") or {}).get("code")
            counts[f"ended as {call.last['status']}" + (f" ({code})" if code else "")] += 1
            counts["with store_late"] += is_late(call.last)
    return counts


async def _problems_of(clients: Clients, call: Call) -> list[str]:
    problems = [*call.problems]
    if problems or call.is_lost or call.was_never_stored:
        return problems
    if call.last is None:
        return ["it has no end"]
    if call.events and len(call.ends) != 1:
        problems.append(f"it has {len(call.ends)} ends")
    if not call.is_stored:
        return problems + await _unstored_problems(clients, call)
    was_late = is_late(call.last)
    status, stored = await clients.stored(call)
    if status == 404:
        return problems if was_late else [*problems, "it is not stored"]
    if status != 200:
        return [*problems, f"reading it: {status} {stored}"]
    log = await clients.log(call)
    problems += [f"in its log: {text}" for text in log.problems]
    if len(log.ends) != 1:
        problems.append(f"its log has {len(log.ends)} ends: {[each['type'] for each in log.events]}")
        return problems
    if was_late and stored["status"] != call.last["status"]:
        return problems  # it was failed meanwhile, and stays so
    return problems + _differences(call, log, stored)


async def _unstored_problems(clients: Clients, call: Call) -> list[str]:
    assert call.last is not None
    problems = _text_problems(call, call.last)
    if call.last["status"] != "completed":
        problems.append(f"it has ended as {call.last}")
    if is_late(call.last):
        problems.append("it waits for the store")
    status, body = await clients.stored(call)
    if status != 404:
        problems.append(f"reading it: {status} {body}")
    return problems


def _differences(call: Call, log: Call, stored: Json) -> list[str]:
    problems = []
    assert call.last is not None
    end = log.ends[0]["response"]
    code = (end.get("error") or {}).get("code")
    if _known(stored) != _known(end):
        problems.append(f"the record and the log differ: {_known(stored)} {_known(end)}")
    if _known(stored) != _known(call.last) and not _is_taken_over(stored, call.last):
        problems.append(f"the record and the client differ: {_known(stored)} {_known(call.last)}")
    if call.events and code not in ENDINGS and _plain(call.events) != _plain(log.events):
        problems.append(f"the log and the client's {len(call.events)} events differ")
    if call.events and code in ENDINGS:
        # The last tenth of a second of a dead worker is not stored: the log ends earlier, by items that end.
        same = sum(1 for one, other in zip(call.events, log.events, strict=False) if one == other)
        rest = [event["type"] for event in log.events[same:]]
        if any("delta" in each or each.endswith(".added") for each in rest):
            problems.append(f"the log of an interrupted turn goes on differently: {rest}")
    if call.kind != "cancel" and end["status"] == "completed":
        problems += _text_problems(call, end)
    return problems


def _text_problems(call: Call, response: Json) -> list[str]:
    text = _text(response)
    is_right = text.split() == "".join(words_of(call.name, call.words)).split()
    return [] if is_right else [f"its text is wrong: {text!r}"]


def _known(response: Json) -> Json:
    """Return what the record, the log and the client must agree on."""
    is_cancelled = (response.get("incomplete_details") or {}).get("reason") == "cancelled"
    status = "cancelled" if is_cancelled else response["status"]
    return {"status": status, "output": response["output"], "error": response.get("error")}


def _is_taken_over(stored: Json, seen: Json) -> bool:
    """Whether a turn was taken over, and its client has heard so from the worker that has lost it. Until that
    worker noticed, it sent on what came from the upstream: the client has seen the stored output, or more."""
    ends = [each["error"] for each in (stored, seen) if each.get("error")]
    codes = [end["code"] for end in ends]
    return codes == ["worker_lost"] * 2 and ends[0] != ends[1] and _text(seen).startswith(_text(stored))


def _text(response: Json) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def _plain(events: list[Json]) -> list[Json]:
    """Return events without the diagnostics: what was late when it was sent is stored now."""
    return [
        {**event, "response": {**event["response"], "diagnostics": None}} if "response" in event else event
        for event in events
    ]
