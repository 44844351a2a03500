"""The check of the packed extension finds what does not belong in it, and what is missing or old."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from penstock.version import VERSION
from tests.vscode.packed import EXTENSION, WHEEL, faults, main, sources

Files = dict[str, bytes | None]
"""Names and contents; None leaves a file out."""

OLD = WHEEL.replace(VERSION, "0.0.1")


def zipped(files: Files) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            if data is not None:
                archive.writestr(name, data)
    return buffer.getvalue()


def pack(folder: Path, changed: Files, changed_in_wheel: Files) -> Path:
    """Pack an extension with changes. The names of wheels have a wheel of the sources as content."""
    wheel = zipped({**sources(), f"penstock-{VERSION}.dist-info/METADATA": b"", **changed_in_wheel})
    names = ("package.json", "icon.png", "src/python.js", "images/chat.png")
    files: Files = {name: (EXTENSION / name).read_bytes() for name in names}
    files |= {"readme.md": (EXTENSION / "README.md").read_bytes(), f"wheel/{WHEEL}": wheel, **changed}
    files |= {name: wheel for name, data in files.items() if name.endswith(".whl") and data is not None}
    vsix = folder / "packed.vsix"
    packed: Files = {f"extension/{name}": data for name, data in files.items()}
    vsix.write_bytes(zipped({"extension.vsixmanifest": b"", "[Content_Types].xml": b"", **packed}))
    return vsix


def test_a_packed_extension_with_one_wheel_of_the_same_version_is_accepted(tmp_path: Path) -> None:
    vsix = pack(tmp_path, {}, {})
    assert list(faults(vsix)) == []
    assert main([str(vsix)]) == 0


REJECTED: dict[str, tuple[Files, Files, str]] = {
    "no wheel": ({f"wheel/{WHEEL}": None}, {}, f"no wheel instead of one {WHEEL}"),
    "a second wheel": ({f"wheel/{OLD}": b""}, {}, f"'wheel/{OLD}'"),
    "a wheel of another version": ({f"wheel/{WHEEL}": None, f"wheel/{OLD}": b""}, {}, f"'wheel/{OLD}'"),
    "another version": ({"package.json": json.dumps({"version": "9.9.9"}).encode()}, {}, "version 9.9.9"),
    "a test": ({"tests/unit/fake.js": b""}, {}, "tests/unit/fake.js does not belong"),
    "an old source file": ({"src/python.js": b"old"}, {}, "src/python.js is not that of vscode/"),
    "a deleted source file": ({"src/deleted.js": b"old"}, {}, "src/deleted.js is not that of vscode/"),
    "an old module": ({}, {"penstock/version.py": b"old"}, "penstock/version.py of the wheel"),
    "a wheel without a module": ({}, {"penstock/version.py": None}, "penstock/version.py of the wheel"),
    "a test in the wheel": ({}, {"tests/test_docs.py": b""}, "tests/test_docs.py of the wheel"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_packed_extension_is_rejected_if_it_has(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed, changed_in_wheel, fault = REJECTED[name]
    assert main([str(pack(tmp_path, changed, changed_in_wheel))]) == 1
    assert fault in capsys.readouterr().err
