"""Only its owner can read what Penstock writes, even with a umask that allows everything."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from penstock.store.sqlite.socket_bus import bus_folder
from tests.cli.running import COMMAND, environment
from tests.client.server import in_a_thread
from tests.gateway.running import SECRET_ANSWER, SECRET_KEY, SECRET_PROMPT, gateway
from tests.gateway.upstream import ScriptedUpstream, said, streamed
from tests.hardening.terminals import typed_on_a_terminal

pytestmark = pytest.mark.hardening

OPEN = ("sh", "-c", 'umask 000; exec "$@"', "sh")
"""Runs a command with a umask that removes no permission."""
PUBLIC = ("ready", "log", "inputrc")
"""Files that contain only an address, or that the tests write."""
OTHER_USER = 12345
_CONFIG = """
passthrough = "chat"
[server]
record = true
[targets.chat]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
"""


def modes(folder: Path) -> dict[str, str]:
    """Return what others may do something with, by its path."""
    found = {}
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & 0o077 and path.name not in PUBLIC:
            found[str(path.relative_to(folder))] = oct(stat.S_IMODE(mode))
    return found


def penstock(*arguments: str, folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the open umask, in a home of its own."""
    home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "CODEX_HOME": str(folder / "codex")}
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "PENSTOCK_CONFIG"):
        home[name] = ""
    done = subprocess.run(
        [*OPEN, COMMAND, *arguments],
        cwd=folder,
        env=environment(**{**home, **changes}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    scripted.play("m", streamed(*said(SECRET_ANSWER)))
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_gateway_writes_for_its_owner_only(
    folder: Path, upstream: ScriptedUpstream, stack: ExitStack, workers: str
) -> None:
    (folder / "penstock.toml").touch(0o600)
    sockets = Path(stack.enter_context(TemporaryDirectory(prefix="p-")))  # their paths must be short
    key = {"UPSTREAM_KEY": SECRET_KEY, "XDG_STATE_HOME": str(folder / "state"), "TMPDIR": str(sockets)}
    config = _CONFIG.format(url=upstream.url)
    store = folder / "deep" / "er" / "store.sqlite"
    (folder / "deep").mkdir(mode=0o700)
    options = ("--workers", workers, "--store", str(store))
    with gateway(folder, *options, config=config, environment=key, through=OPEN) as running:
        assert running.whole("m", SECRET_PROMPT).status == 200
        assert running.ask({"model": "m", "input": "x"}, "/v1/responses/compact").status == 200
        assert modes(folder) == {}
        names = {path.name for path in store.parent.iterdir()}
        assert {"store.sqlite", "store.sqlite-wal", "store.sqlite-shm", "store.sqlite.lock"} <= names
        assert modes(sockets) == {}
        assert bool(list(sockets.rglob("*"))) == (workers == "2")
    assert modes(folder) == {}
    exported = penstock("store", "export", "--store", str(store), "-o", "out.jsonl", folder=folder)
    assert exported.returncode == 0, exported.stderr
    assert SECRET_PROMPT in (folder / "out.jsonl").read_text()
    assert modes(folder) == {}


def test_an_export_replaces_a_file_that_others_can_read(folder: Path, upstream: ScriptedUpstream) -> None:
    key = {"UPSTREAM_KEY": SECRET_KEY}
    with gateway(folder, config=_CONFIG.format(url=upstream.url), environment=key) as running:
        assert running.whole("m").status == 200
    out = folder / "out.jsonl"
    out.write_text("old")
    out.chmod(0o666)
    line = ("store", "export", "--store", "store.sqlite", "-o", str(out))
    assert penstock(*line, folder=folder).returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_commands_write_for_their_user_only(folder: Path, upstream: ScriptedUpstream) -> None:
    assert penstock("init", "--yes", "--no-test", folder=folder).returncode == 0
    for arguments in (
        ("keys", "create", "anna"),
        ("keys", "rotate", "anna"),
        ("init", "--yes", "--no-test", "--force"),
        ("connect", "codex", "--write", "--base-url", f"{upstream.url}/v1", "--model", "m"),
        ("connect", "llm", "--write", "--base-url", f"{upstream.url}/v1", "--model", "m"),
        ("connect", "vscode", "--write", "--base-url", f"{upstream.url}/v1", "--model", "m"),
    ):
        done = penstock(*arguments, folder=folder)
        assert done.returncode == 0, (arguments, done.stderr)
        assert {name: mode for name, mode in modes(folder).items() if name not in PARENTS} == {}, arguments
    assert (folder / "codex" / "config.toml").exists()


PARENTS = (".config", ".config/Code", ".config/io.datasette.llm", ".config/Code/User")
"""Folders of other programs, or on the way to theirs."""


def test_replacing_keeps_mode_and_backup(folder: Path, upstream: ScriptedUpstream) -> None:
    file = folder / "codex" / "config.toml"
    file.parent.mkdir()
    file.write_text("# mine\n")
    file.chmod(0o640)
    line = ("connect", "codex", "--write", "--base-url", f"{upstream.url}/v1", "--model", "m")
    assert penstock(*line, folder=folder).returncode == 0
    backup = file.with_name("config.toml.bak")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (file, backup)] == [0o640, 0o640]
    assert backup.read_text() == "# mine\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to other users")
def test_replacing_keeps_the_owner(folder: Path, upstream: ScriptedUpstream) -> None:
    """An administrator may edit the files of a service user, who must still be able to read them."""
    file = folder / "codex" / "config.toml"
    file.parent.mkdir()
    file.write_text("# mine\n")
    os.chown(file, OTHER_USER, OTHER_USER)
    line = ("connect", "codex", "--write", "--base-url", f"{upstream.url}/v1", "--model", "m")
    assert penstock(*line, folder=folder).returncode == 0
    assert (file.stat().st_uid, file.stat().st_gid) == (OTHER_USER, OTHER_USER)


def test_a_saved_conversation_is_for_its_user_only(folder: Path, upstream: ScriptedUpstream) -> None:
    old = os.umask(0)
    try:
        key = {"UPSTREAM_KEY": SECRET_KEY}
        with gateway(folder, config=_CONFIG.format(url=upstream.url), environment=key) as running:
            line = ("chat", "--base-url", f"{running.url}/v1", "--model", "m")
            steps = [(b"> ", b"hello\n"), (b"context", b"/save saved.jsonl\n"), (b"saved", b"/quit\n")]
            typed_on_a_terminal(*line, typed=steps, folder=folder)
    finally:
        os.umask(old)
    assert "hello" in (folder / "saved.jsonl").read_text()
    assert stat.S_IMODE((folder / "saved.jsonl").stat().st_mode) == 0o600


def test_the_log_of_a_private_gateway_is_for_its_user_only(folder: Path) -> None:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "codex").write_text("#!/bin/sh\nexit 0\n")
    (programs / "codex").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    done = penstock("run", "codex", "--store", "none", "--log", "run.log", folder=folder, PATH=path)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((folder / "run.log").stat().st_mode) == 0o600


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like /tmp."""
    made = tmp_path / "shared"
    made.mkdir()
    made.chmod(0o1777)
    return made


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", ".lock"])
def test_a_link_in_a_shared_folder_is_not_written_through(shared: Path, folder: Path, suffix: str) -> None:
    victim = folder / "victim"
    victim.write_text("mine")
    (shared / f"store.sqlite{suffix}").symlink_to(victim)
    done = penstock("serve", "--port", "0", "--store", str(shared / "store.sqlite"), folder=folder)
    assert done.returncode == 2
    assert "everyone can write to" in done.stderr
    assert victim.read_text() == "mine"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to other users")
def test_a_store_that_another_user_has_planted_is_refused(shared: Path, folder: Path) -> None:
    """They would read everything that is stored in it."""
    planted = shared / "store.sqlite"
    planted.touch()
    planted.chmod(0o666)
    os.chown(planted, OTHER_USER, OTHER_USER)
    done = penstock("serve", "--port", "0", "--store", str(planted), folder=folder)
    assert done.returncode == 2
    assert "a file of another user" in done.stderr


def test_a_ready_file_is_not_written_through_a_link(shared: Path, folder: Path) -> None:
    victim = folder / "victim"
    victim.write_text("mine")
    (shared / "ready.new").symlink_to(victim)
    options = ("--store", "/dev/null/store", "--ready-file", str(shared / "ready"))
    assert penstock("serve", "--port", "0", *options, folder=folder).returncode == 2
    assert victim.read_text() == "mine"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to other users")
def test_sockets_are_not_put_into_a_folder_of_another_user(folder: Path) -> None:
    """Its name is known, and it is in a folder that everyone can write to."""
    store = folder / "store.sqlite"
    planted = folder / bus_folder(store).name
    planted.mkdir(mode=0o777)
    os.chown(planted, OTHER_USER, OTHER_USER)
    line = ("serve", "--port", "0", "--workers", "2", "--store", str(store))
    done = penstock(*line, folder=folder, TMPDIR=str(folder))
    assert done.returncode == 2
    assert "belongs to others" in done.stderr


def test_doctor_warns_about_a_store_that_others_can_read(folder: Path) -> None:
    with gateway(folder) as running:
        assert running.whole("demo").status == 200
    (folder / "store.sqlite").chmod(0o644)
    done = penstock("doctor", "--quick", "--json", folder=folder, PENSTOCK_STORE=str(folder / "store.sqlite"))
    found = [each for each in json.loads(done.stdout)["checks"] if each["kind"] == "store"]
    assert [each["status"] for each in found] == ["warning"]
    assert "chmod 600" in found[0]["fix"]
