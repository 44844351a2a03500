"""Install a real VS Code without a display once into a cache folder (editor 1)."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import msgspec

from tests.installing import InstallError, OutOfReachError, cache_folder, locked, npm

MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
PACKAGES = {
    f"node-linux-{MACHINES.get(platform.machine(), platform.machine())}": "24.21.0",
    "code-server": "4.139.1",
    "playwright-core": "1.65.0",
}
"""The pinned versions: node for code-server, VS Code as a server, and the browser driver."""


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
    folder = cache_folder("vscode-e2e", PACKAGES)
    with locked(folder):
        if not (folder / "ready").exists():
            _install(folder)
            (folder / "ready").touch()
    modules = folder / "node_modules"
    node = next(modules.glob("node-linux-*/bin/node"))
    return Installed(node, modules / "code-server", modules, Path(chromium))


def _install(folder: Path) -> None:
    (folder / "package.json").write_text('{"private": true}\n')
    npm(folder, "install", *(f"{name}@{version}" for name, version in PACKAGES.items()))
    node = next(folder.glob("node_modules/node-linux-*/bin"), None)
    if node is None:
        raise InstallError(f"there is no node for {platform.system()} on {platform.machine()}")
    # code-server's own install script does this for VS Code's modules, and then compiles some of them.
    environment = {**os.environ, "PATH": f"{node}:{os.environ['PATH']}"}
    modules = folder / "node_modules" / "code-server" / "lib" / "vscode"
    npm(modules, "install", "--omit=dev", environment=environment)
