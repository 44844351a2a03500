"""A private PostgreSQL server for tests: its own data in a temporary folder, on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from penstock.store.postgres.connections import DatabaseConnection
from penstock.store.postgres.failures import library

_TABLES = (
    *("responses", "running", "workers", "held_keys", "items", "segments", "memories", "conversations"),
    *("conversation_items", "turns", "turn_hours", "turn_days", "turn_causes", "tenant_days", "secrets"),
)
_ATTEMPTS = 20
"""After SIGKILL, the other processes of a server need a moment to notice that it is gone."""
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def binaries() -> Path | None:
    """Return the folder of the server's programs: Debian does not put them on the path."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if on_path is not None:
        found.append(Path(on_path).resolve().parent)
    return max(found, key=str, default=None)


class PostgresCluster:
    """A server. Its processes end with this one, however that ends."""

    def __init__(self, *, settings: Sequence[str] = _FAST) -> None:
        folder = binaries()
        if folder is None:
            pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
        self._binaries, self._settings = folder, settings
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self._data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._unprivileged: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            user = pwd.getpwnam("nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
            self._unprivileged = ["setpriv", *ids, "--clear-groups"]
        self._run("initdb", "--pgdata", str(self._data), "--username=postgres", "--auth=trust", "--no-sync")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]

    def _run(self, program: str, *options: str) -> None:
        done = subprocess.run(
            [*self._unprivileged, str(self._binaries / program), *options],
            cwd=self.folder,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        return f"postgresql://postgres:planted-password@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        settings = [
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            f"unix_socket_directories={self.folder}",
            "max_connections=300",
            *self._settings,
        ]
        options = [option for setting in settings for option in ("-c", setting)]
        prefix = self._unprivileged or ["setpriv"]
        command = [
            *prefix,
            "--pdeathsig=INT",
            str(self._binaries / "postgres"),
            "-D",
            str(self._data),
            *options,
        ]
        question = [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        for _ in range(_ATTEMPTS):
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
            while self._process.poll() is None:
                if subprocess.run(question, check=False).returncode == 0:
                    return
        pytest.fail((self.folder / "log").read_text()[-4000:])

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server. SIGINT ends sessions; SIGQUIT is like a crash: nothing is flushed."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        self.stop(how)
        self.start()

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def shared_cluster() -> PostgresCluster:
    """Return the server of this test process; it is started with the first use."""
    cluster = PostgresCluster()
    cluster.start()
    return cluster


def remove_shared_cluster() -> None:
    if shared_cluster.cache_info().currsize:
        shared_cluster().remove()


async def connected(url: str) -> DatabaseConnection:
    connection: DatabaseConnection = await library().connect(url)
    return connection


async def empty(url: str) -> None:
    """Delete everything that earlier tests have left in a database."""
    connection = await connected(url)
    try:
        if await connection.fetchval("SELECT to_regclass('penstock.secrets') IS NOT NULL"):
            deletions = [f"DELETE FROM penstock.{table}" for table in _TABLES]
            reset = "UPDATE penstock.state SET store_time = NULL, logs_since = '-infinity'"
            await connection.execute("; ".join([*deletions, reset]))
    finally:
        await connection.close(timeout=5)
