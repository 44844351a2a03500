"""Check the packed extension: `python -m tests.vscode.packed dist/penstock-X.Y.Z.vsix`."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from penstock.version import VERSION

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "vscode"
PACKAGE = ROOT / "src" / "penstock"

VSIX = ROOT / "dist" / f"penstock-{VERSION}.vsix"
"""The file that `make vsix` writes."""

WHEEL = f"penstock-{VERSION}-py3-none-any.whl"
"""The name that vscode/src/environment.js looks for."""

RENAMED = {"readme.md": "README.md", "changelog.md": "CHANGELOG.md", "LICENSE.txt": "LICENSE"}
"""The names that `vsce` gives to files."""

ROOTS = ("package.json", "icon.png", "images/", "src/", *RENAMED)
"""What the extension contains apart from the wheel."""


def faults(vsix: Path) -> Iterator[str]:
    """Yield what is wrong with a packed extension: it has the files of this source tree, and one wheel."""
    with zipfile.ZipFile(vsix) as archive:
        files = {name.removeprefix("extension/"): archive.read(name) for name in archive.namelist()}
    for name in ("[Content_Types].xml", "extension.vsixmanifest"):
        files.pop(name, None)
    version = json.loads(files["package.json"])["version"]
    if version != VERSION:
        yield f"it has version {version}, but the package has {VERSION}"
    wheels = {name: data for name, data in files.items() if name.startswith("wheel/")}
    if list(wheels) != [f"wheel/{WHEEL}"]:
        yield f"it contains {sorted(wheels) or 'no wheel'} instead of one {WHEEL}"
    for name in sorted(files.keys() - wheels.keys()):
        source = EXTENSION / RENAMED.get(name, name)
        if not name.startswith(ROOTS):
            yield f"{name} does not belong in it"
        elif not source.is_file() or source.read_bytes() != files[name]:
            yield f"{name} is not that of vscode/"
    for data in wheels.values():
        yield from _wheel_faults(data)


def _wheel_faults(wheel: bytes) -> Iterator[str]:
    with zipfile.ZipFile(BytesIO(wheel)) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    expected = sources()
    for name in sorted(packed.keys() | expected.keys()):
        if packed.get(name) != expected.get(name):
            yield f"{name} of the wheel is not that of src/"


def sources() -> dict[str, bytes]:
    """Return the files of the package, under their names in a wheel."""
    return {
        path.relative_to(PACKAGE.parent).as_posix(): path.read_bytes()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def main(files: list[str]) -> int:
    if len(files) != 1:
        print("usage: python -m tests.vscode.packed VSIX", file=sys.stderr)
        return 2
    found = list(faults(Path(files[0])))
    for fault in found:
        print(f"{files[0]}: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
