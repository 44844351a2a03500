"""A disk that is full, locked or missing: turns are still answered, and what was not stored is reported."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.store.sqlite.schema import STEPS
from tests.gateway.disk_faults import CANNOT_WRITE, HARMS, Harm, file_of, late_count
from tests.gateway.probes import wait_for
from tests.gateway.running import SECRET_PROMPT, Json, Reply, Running, gateway

pytestmark = pytest.mark.e2e

DROP = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) == 0  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
os.execv(sys.argv[1], sys.argv[1:])
"""
POWERLESS = (sys.executable, "-c", DROP) if os.geteuid() == 0 else ()
"""Nothing is read-only for root, unless it gives that right away."""


def is_late(reply: Reply) -> bool:
    """A checked answer whose end reports that it may not survive a restart."""
    assert (reply.status, reply.last["status"]) == (200, "completed")
    return late_count(reply.last) == 1


def get(running: Running, id: str) -> Reply:
    return running.ask(path=f"/v1/responses/{id}", method="GET")


def promised(reply: Reply) -> Json:
    """A response without its `store_late` diagnostics."""
    return {name: value for name, value in reply.last.items() if name != "diagnostics"}


@HARMS
def test_turns_are_answered_whole_and_are_kept_when_the_disk_is_well(tmp_path: Path, harm: Harm) -> None:
    with gateway(tmp_path, faults=(CANNOT_WRITE,)) as running:
        before = running.stream("demo", SECRET_PROMPT * 2000)
        assert not is_late(before)
        assert get(running, before.last["id"]).json == before.last
        with harm(running, file_of(tmp_path)):
            late = [running.stream("demo"), running.whole("demo")]
            late.append(running.stream("demo", previous_response_id=late[0].last["id"]))
            assert [is_late(reply) for reply in late] == [True, True, True]
            assert [is_late(get(running, reply.last["id"])) for reply in late] == [True, True, True]
            if file_of(tmp_path).exists():
                assert get(running, before.last["id"]).json == before.last
            assert running.ask(path="/healthz", method="GET").status == 200
        wait_for(lambda: not is_late(running.whole("demo")))
        after = running.stream("demo", previous_response_id=late[2].last["id"])
        assert not is_late(after)
        running.signal(signal.SIGKILL)
        running.process.wait()
        logged = [line["code"] for line in running.log if line.get("event") == "store"]
    assert len(logged) <= 2, "once, and once when it is over"
    with gateway(tmp_path) as running:
        for reply in (before, *late, after):
            assert get(running, reply.last["id"]).json == promised(reply)


@HARMS
def test_what_only_a_disk_can_do_is_refused_until_it_is_well(tmp_path: Path, harm: Harm) -> None:
    with gateway(tmp_path, faults=(CANNOT_WRITE,)) as running:
        kept = running.whole("demo", SECRET_PROMPT * 2000).last["id"]
        with harm(running, file_of(tmp_path)):
            for method, path in (("POST", "/v1/conversations"), ("DELETE", f"/v1/responses/{kept}")):
                refused = running.ask({} if method == "POST" else None, path=path, method=method)
                assert (refused.status, refused.error["code"]) == (503, "store_unavailable")
                assert str(tmp_path) not in refused.error["message"]
                assert int(refused.headers["retry-after"]) > 0
        wait_for(lambda: running.ask({}, path="/v1/conversations").status == 200)
        assert get(running, kept).status == 200


def test_a_file_that_was_deleted_takes_nothing_with_it_unsaid(tmp_path: Path) -> None:
    """What is written into it would be lost with the process: it must not be reported as stored."""
    with gateway(tmp_path, faults=(CANNOT_WRITE, "could not be written to the store")) as running:
        running.whole("demo")
        file_of(tmp_path).unlink()
        late = [running.stream("demo"), running.whole("demo")]
        assert [is_late(reply) for reply in late] == [True, True]
        assert [line["code"] for line in running.log if line.get("event") == "store"] == ["missing"]
    with gateway(tmp_path) as running:
        assert not is_late(running.whole("demo"))


def test_a_folder_that_becomes_read_only_changes_nothing_for_who_has_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with gateway(tmp_path, "--store", str(file_of(folder)), through=POWERLESS) as running:
        before = running.whole("demo")
        folder.chmod(0o500)
        after = running.stream("demo", previous_response_id=before.last["id"])
        assert [is_late(reply) for reply in (before, after)] == [False, False]
        assert get(running, after.last["id"]).json == after.last
        running.signal(signal.SIGKILL)
        running.process.wait()
    with gateway(tmp_path, "--store", str(file_of(folder)), through=POWERLESS) as running:
        assert get(running, after.last["id"]).json == after.last
    folder.chmod(0o700)


# Opening


def foreign(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE notes (words TEXT)")
    connection.commit()
    connection.close()


def no_database(file: Path) -> None:
    file.write_bytes(b"words and words and more words\n" * 400)


def damaged(file: Path) -> None:
    """A store, in the middle of which something else was written."""
    ours(file)
    data = file.read_bytes()
    file.write_bytes(data[:100] + b"\xff" * (len(data) - 100))


def newer(file: Path) -> None:
    ours(file)
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    connection.close()


def ours(file: Path) -> None:
    with gateway(file.parent, "--store", str(file)) as running:
        running.whole("demo")


def a_folder(file: Path) -> None:
    file.mkdir()


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (foreign, "a database of another program; use another file (--store PATH)"),
        (no_database, "the file is not a database; use another file (--store PATH)"),
        (damaged, "the file is damaged; move it aside, or restore it from a backup"),
        (newer, "use the newer version, or use another file (--store PATH)"),
        (a_folder, "the file cannot be opened: Is a directory"),
    ],
    ids=["foreign", "no database", "damaged", "newer", "a folder"],
)
def test_a_store_that_cannot_be_opened_is_an_error_that_names_the_remedy(
    tmp_path: Path, make: Callable[[Path], None], advice: str
) -> None:
    file = tmp_path / "other.sqlite"
    make(file)
    before = file.read_bytes() if file.is_file() else b""
    ended = serve(file)
    assert ended.returncode == 2
    assert f"--store: {file}: " in ended.stderr
    assert advice in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (file.read_bytes() if file.is_file() else b"") == before


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    folder.chmod(0o500)
    ended = serve(folder / "store.sqlite", through=POWERLESS)
    assert ended.returncode == 2
    assert "Permission denied" in ended.stderr
    assert "Traceback" not in ended.stderr
    folder.chmod(0o700)


def serve(file: Path, *, through: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Start a gateway that is expected to fail."""
    command = [*through, sys.executable, "-m", "penstock", "serve", "--port", "0", "--store", str(file)]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, "check": False}
    return subprocess.run(command, cwd=file.parent.parent, stdin=subprocess.DEVNULL, **options)
