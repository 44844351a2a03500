"""Runs what a Dockerfile says without Docker: in namespaces, with a root folder like that of the image.

The machine's own /usr and /etc stand for the base image. Nothing else of the machine is there, so a path that
the image lacks is missing here too.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.deploy.files import IMAGE_PATH

_LINKS = ("bin", "lib", "lib64", "sbin")
_UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
_NAMES = ("cert", "proxy", "ssl_", "pip_index", "pip_extra_index", "pip_find_links", "pip_default_timeout")


def missing() -> str:
    """Return why containers cannot be imitated here; empty if they can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root on Linux"
    if any(shutil.which(program) is None for program in ("unshare", "nsenter", "setpriv", "chroot")):
        return "needs unshare, nsenter, setpriv and chroot (Debian: apt-get install util-linux)"
    if not Path(sys.base_prefix, "bin", "python").exists():
        return "this Python has no bin/python"
    tried = subprocess.run(
        [*_UNSHARE, "sh", "-c", "mount --make-rprivate / && mount -t tmpfs tmpfs /tmp"], capture_output=True
    )
    return "the system does not allow mounts in a namespace" if tried.returncode else ""


class User(NamedTuple):
    uid: int
    gid: int


class Container:
    """A root folder in which programs run. Only what is in `writable`, and /tmp, can be written."""

    def __init__(self, root: Path, *, writable: Mapping[str, Path], user: User | None = None) -> None:
        """`writable` has the folders outside of the root folder that are seen at a path in it. Without a
        `user`, programs run as root and may write everywhere, as in a build."""
        self._root, self._writable, self._user = root, writable, user
        for name in ("usr", "etc", "proc", "dev", "tmp", "root", *(path.strip("/") for path in writable)):
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in _LINKS:
            if not (root / name).is_symlink():
                (root / name).symlink_to(f"usr/{name}")

    def command(self, words: Sequence[str], environment: Mapping[str, str], folder: str) -> list[str]:
        """Return a command that runs `words` as the first process in namespaces of its own."""
        inside = _with_environment(words, environment, folder)
        if self._user is not None:
            user = [f"--reuid={self._user.uid}", f"--regid={self._user.gid}", "--clear-groups"]
            inside = ["setpriv", *user, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", *inside]
        script = "\n".join(["set -e", *self._mounts(), f"exec chroot {self._root} {shlex.join(inside)}"])
        return [*_UNSHARE, "sh", "-c", script]

    def _mounts(self) -> Iterator[str]:
        root = self._root
        yield "mount --make-rprivate /"
        yield f"mount --bind {root} {root}"
        for inside, outside in (("usr", "/usr"), ("usr/local", sys.base_prefix), ("etc", "/etc")):
            yield f"mount --bind {outside} {root}/{inside}"
            yield f"mount -o remount,bind,ro {root}/{inside}"
        yield f"mount --rbind /dev {root}/dev"
        yield f"mount -t proc proc {root}/proc"
        for place, folder in self._writable.items():
            yield f"mount --bind {folder} {root}{place}"
        if self._user is None:
            yield f"mount --bind {Path.home()} {root}/root"  # the settings of pip
            yield f"mount -o remount,bind,ro {root}/root"
        else:
            yield f"mount -t tmpfs tmpfs {root}/tmp"
            yield f"mount -o remount,bind,ro {root}"

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], folder: str
    ) -> subprocess.CompletedProcess[str]:
        command = self.command(words, environment, folder)
        return subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)

    @contextmanager
    def start(
        self, words: Sequence[str], environment: Mapping[str, str], folder: str, log: Path
    ) -> Iterator[StartedContainer]:
        with log.open("wb") as written:
            process = subprocess.Popen(
                self.command(words, environment, folder),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
            )
        try:
            yield StartedContainer(process, self, environment, folder)
        finally:
            process.kill()  # which kills the first process of the container
            process.wait(30)

    def enter(
        self, pid: int, words: Sequence[str], environment: Mapping[str, str], folder: str
    ) -> subprocess.CompletedProcess[str]:
        """Run another program in a container, as `docker exec` does."""
        assert self._user is not None
        enter = ["nsenter", f"--target={pid}", "--mount", "--pid", "--root"]
        user = [f"--reuid={self._user.uid}", f"--regid={self._user.gid}", "--clear-groups", "--no-new-privs"]
        inside = _with_environment(words, environment, folder)
        return subprocess.run([*enter, "setpriv", *user, *inside], capture_output=True, text=True, timeout=60)


def _with_environment(words: Sequence[str], environment: Mapping[str, str], folder: str) -> list[str]:
    # A Python that was built elsewhere finds its own library only there.
    given = {"LD_LIBRARY_PATH": "/usr/local/lib", **environment}
    variables = [f"{name}={value}" for name, value in given.items()]
    return ["env", "--ignore-environment", f"--chdir={folder}", *variables, *words]


class StartedContainer:
    """A program that runs in a container as its first process."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        container: Container,
        environment: Mapping[str, str],
        folder: str,
    ) -> None:
        self.process = process
        self._container, self._environment, self._folder = container, environment, folder

    @property
    def pid(self) -> int:
        """The first process of the container, as this machine sees it."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for _ in range(500):
            [*found] = children.read_text().split()
            if found and os.readlink(f"/proc/{found[0]}/root") != "/":  # it is in its root folder
                return int(found[0])
            time.sleep(0.01)
        raise AssertionError("the container was not started")

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return self._container.enter(self.pid, words, self._environment, self._folder)


def build_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a build: those of the Dockerfile, and those about package indexes."""
    machine = {
        name: value for name, value in os.environ.items() if any(each in name.lower() for each in _NAMES)
    }
    return {"HOME": "/root", **machine, "PATH": IMAGE_PATH, **own}
