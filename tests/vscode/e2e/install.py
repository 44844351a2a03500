"""Install a real VS Code without a display once into a cache folder (editor 1)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
PACKAGES = {
    f"node-linux-{MACHINES.get(platform.machine(), platform.machine())}": "24.21.0",
    "code-server": "4.139.1",
    "playwright-core": "1.65.0",
}
"""The pinned versions: node for code-server, VS Code as a server, and the browser driver."""

LONGEST = 600
"""Seconds that one step of the installation may take. Without a registry it fails much sooner."""

QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
"""Install scripts would build native modules, which are not needed here."""


NO_NETWORK = (
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "ETIMEDOUT",
)
"""The error codes of npm if there is no registry."""


class InstallError(Exception):
    """VS Code could not be installed."""


class OutOfReachError(InstallError):
    """The registry cannot be reached from this machine."""


class Installed(msgspec.Struct, frozen=True):
    """The paths of the installed programs."""

    node: Path
    code_server: Path
    modules: Path
    chromium: Path


def installed() -> Installed:
    """Return the paths, after installing what is missing. Raise `InstallError` if that fails."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise OutOfReachError("there is no chromium: install it with `apt-get install chromium`")
    if shutil.which("npm") is None:
        raise OutOfReachError("there is no npm")
    folder = cache_folder()
    with locked(folder):
        if not (folder / "ready").exists():
            _install(folder)
            (folder / "ready").touch()
    modules = folder / "node_modules"
    node = next(modules.glob("node-linux-*/bin/node"))
    return Installed(node, modules / "code-server", modules, Path(chromium))


def cache_folder() -> Path:
    """Return a separate folder for every set of versions, so that an old one is never partly replaced."""
    home = os.environ.get("PENSTOCK_CACHE")
    root = Path(home) if home else Path.home() / ".cache" / "penstock" / "vscode-e2e"
    versions = hashlib.sha256(msgspec.json.encode(PACKAGES)).hexdigest()[:12]
    return root / versions


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process install while others wait. The lock is released when the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(folder: Path) -> None:
    (folder / "package.json").write_text('{"private": true}\n')
    _npm(folder, "install", *(f"{name}@{version}" for name, version in PACKAGES.items()))
    node = next(folder.glob("node_modules/node-linux-*/bin"), None)
    if node is None:
        raise InstallError(f"there is no node for {platform.system()} on {platform.machine()}")
    # code-server's own install script does this for VS Code's modules, and then compiles some of them.
    _npm(folder / "node_modules" / "code-server" / "lib" / "vscode", "install", "--omit=dev", first=node)


def _npm(folder: Path, *arguments: str, first: Path | None = None) -> None:
    path = os.environ["PATH"]
    environment: Mapping[str, str] = {**os.environ, "PATH": f"{first}:{path}" if first else path}
    try:
        done = subprocess.run(
            ["npm", *arguments, *QUIET], cwd=folder, env=environment, capture_output=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired as slow:
        raise InstallError(f"npm did not end in {LONGEST} seconds") from slow
    if done.returncode:
        stderr = done.stderr.decode(errors="replace").strip()[-2000:]
        is_out_of_reach = any(code in stderr for code in NO_NETWORK)
        raise (OutOfReachError if is_out_of_reach else InstallError)(f"npm failed: {stderr}")
