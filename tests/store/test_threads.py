"""Pages of threads: how much is read for one, and where the next one begins."""

from __future__ import annotations

import math

import pytest

from penstock.store.threads import BATCH, MOST_ROWS, ChainRow, ChainScan, newest


def scan_through(
    after: str, chains: dict[str, list[str]], limit: int = 2, talks: tuple[tuple[float, str], ...] = ()
) -> tuple[list[str], str, int]:
    """Scan chains, whose turns have times in their ids; return the page and how many batches were read."""
    turns = sorted(((int(id[1:]), id) for ids in chains.values() for id in ids[1:]), reverse=True)
    first = {id: name for name, ids in chains.items() for id in ids}
    scan, batches = ChainScan(after, limit), 0
    while not scan.is_done:
        batches += 1
        for some in scan.unknown([each for each in turns if each < scan.begin][:BATCH]):
            names = {first[id] for id in some}
            scan.add(_rows({name: chains[name] for name in names}))
    found, cursor = scan.page(each for each in talks if each < scan.after)
    return [each.id for each in found], cursor, batches


def _rows(chains: dict[str, list[str]]) -> list[ChainRow]:
    return [
        (name, id, int(id[1:]), place > 0) for name, ids in chains.items() for place, id in enumerate(ids)
    ]


def test_a_batch_is_read_only_while_the_page_is_not_full() -> None:
    chains = {f"chain{n}": [f"t{n}", f"t{100 + n}"] for n in range(10)}
    assert scan_through("", chains) == (["chain9", "chain8"], "108_t108", 1)
    assert scan_through("101_t101", chains) == (["chain0"], "", 1)


def test_the_next_page_begins_where_a_page_ended_early() -> None:
    """One chain is so long that no more is read. A conversation that is older comes later."""
    long = [f"t{number}" for number in range(MOST_ROWS + 1)]
    chains = {"long": long, "old": ["t1", "t2"]}
    found, cursor, batches = scan_through("", chains, talks=((20_000.5, "conv_1"), (5.0, "conv_2")))
    assert (found, batches) == (["conv_1", "long"], 1)
    assert cursor == f"{MOST_ROWS - 3}_t{MOST_ROWS - 3}"


def test_chains_begin_at_whole_seconds_after_the_cursor_of_a_conversation() -> None:
    assert ChainScan("7.5_conv_1", 2).begin == (8, "")
    assert ChainScan("7.0_resp_1", 2).begin == (7, "resp_1")
    assert ChainScan("1e300_resp_1", 2).begin == (2**53, "resp_1")
    assert ChainScan("-1e300_resp_1", 2).begin == (0, "resp_1")
    assert ChainScan("", 2).after == (math.inf, "")
    with pytest.raises(ValueError, match="cursor"):
        ChainScan("resp_1", 2)


def test_the_newest_turns_are_in_the_order_in_which_they_began() -> None:
    assert newest([5, 1, 3, 2], 3) == [2, 3, 5]
    assert newest([5, 1], 0) == [5]
