"""A gateway that records, what it has stored, and the result of replaying it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.replay.differences import Comparison, compare
from penstock.replay.recording import Recording, read_recording
from penstock.replay.runner import Replayed, replay
from penstock.store import open_archive
from penstock.store.records import RUNNING, LoggedEvent, Trace
from tests.gateway.configs import SHARED_CONFIG
from tests.gateway.probes import wait_for
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.upstream import ScriptedUpstream

KEYED = """
[models.over-keys]
targets = ["chat/keyed-first", "anthropic/keyed-second"]
"""
"""A chain of targets with keys: a refused key rests, and its target is then not asked."""


class Recorder:
    """A gateway that records, and what it has stored."""

    def __init__(self, folder: Path, running: Running) -> None:
        self.folder, self.running = folder, running

    def kept(self, id: str) -> tuple[list[LoggedEvent], list[Trace], bytes]:
        with open_archive(self.folder / "store.sqlite") as file:
            stored = file.find(id)
            assert stored is not None
            return file.events(stored.tenant, id), file.traces(stored.tenant, id), stored.verdict

    def wait_for_the_end(self, id: str) -> None:
        """Wait until its end is in the file, which is shortly after the gateway has sent it."""

        def has_ended() -> bool:
            with open_archive(self.folder / "store.sqlite") as file:
                stored = file.find(id)
            return stored is not None and stored.status not in RUNNING

        wait_for(has_ended)

    def has_a_read(self, id: str) -> bool:
        """Return whether a read of the upstream is in the file."""
        with open_archive(self.folder / "store.sqlite") as file:
            stored = file.find(id)
            return stored is not None and any(
                trace.kind == "read" for trace in file.traces(stored.tenant, id)
            )

    def recording(self, id: str) -> Recording:
        return read_recording(id, *self.kept(id))


def again(recording: Recording) -> tuple[Replayed, Comparison]:
    replayed = replay(recording)
    return replayed, compare(recording, replayed)


def found(comparison: Comparison) -> list[tuple[str, str]]:
    return [(each.where, each.field) for each in (*comparison.requests, *comparison.differences)]


@contextmanager
def recording_gateway(folder: Path, upstream: ScriptedUpstream) -> Iterator[Recorder]:
    config, environment = SHARED_CONFIG.format(url=upstream.url) + KEYED, {"UPSTREAM_KEY": SECRET_KEY}
    with gateway(folder, "--record", config=config, environment=environment) as running:
        yield Recorder(folder, running)
