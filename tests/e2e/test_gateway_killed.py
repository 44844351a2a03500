"""The gateway killed at any moment under load: what it reported is stored, and no turn seems to run
(ask G8)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.gateway_setup import FILE, started
from tests.e2e.load_clients import Ledger, load_and_kill
from tests.e2e.restart_checks import Check, check_file, some
from tests.gateway.running import Running
from tests.gateway.upstream import ScriptedUpstream

pytestmark = pytest.mark.e2e

ROUNDS = 50
CLIENTS = 10


def test_what_was_reported_survives_the_gateway(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    ledger, chance = Ledger(), random.Random(20)
    known: dict[str, None] = {}
    interrupted = 0
    for round in range(ROUNDS + 1):
        with started(tmp_path, upstream) as running:
            check_file(tmp_path / FILE)
            new = [id for id in ledger.received if id not in known]
            interrupted += check_all(running, ledger, new, list(known), chance)
            known |= dict.fromkeys(new)
            if round < ROUNDS:
                load_and_kill(running, ledger, clients=CLIENTS, messages=chance.randrange(5, 300), seed=round)
    assert interrupted > ROUNDS, "too few turns ran when the gateway was killed"
    assert len(ledger.ended) > ROUNDS
    assert ledger.deleted
    assert any(len(items) > 3 for items in ledger.conversations.values())


def check_all(
    running: Running, ledger: Ledger, new: list[str], known: list[str], chance: random.Random
) -> int:
    """Check everything that is new, and some of the rest; return how many turns the last kill
    interrupted."""
    check = Check(running, ledger)
    try:
        check.everything(new)
        interrupted = check.interrupted
        check.everything(some(chance, known, 10))
        for id in some(chance, list(ledger.conversations), 10):
            check.conversation(id)
        for id in some(chance, [id for id in new if id not in ledger.unsure], 3):
            check.can_be_continued(id)
        return interrupted
    finally:
        check.close()
