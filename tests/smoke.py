"""Install built archives into clean environments and try them: `python tests/smoke.py dist/*.whl`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path


def main(archives: list[str]) -> int:
    if not archives:
        print("usage: python tests/smoke.py ARCHIVE...", file=sys.stderr)
        return 2
    for archive in archives:
        with tempfile.TemporaryDirectory(prefix="penstock-smoke-") as folder:
            _try(Path(archive).resolve(), Path(folder))
        print(f"{Path(archive).name}: installed into a clean environment and works")
    return 0


def _try(archive: Path, folder: Path) -> None:
    venv.create(folder / "env", with_pip=True)
    python = str(folder / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(archive)]
    subprocess.run(install, check=True, cwd=folder)
    version = _run(python, folder, "--version").split()[-1]
    assert version in archive.name, f"{archive.name} installs version {version}"
    # Import every public name, so that no module is missing from the archive.
    subprocess.run(
        [python, "-c", "import penstock; [getattr(penstock, name) for name in penstock.__all__]"],
        check=True,
        cwd=folder,
    )
    stream = _ask_gateway(python, folder)
    (folder / "answer.sse").write_bytes(stream)
    assert "lawful" in _run(python, folder, "check", "answer.sse")
    assert b"response.completed" in stream


def _run(python: str, folder: Path, *arguments: str) -> str:
    command = [python, "-m", "penstock", *arguments]
    return subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True).stdout


def _ask_gateway(python: str, folder: Path) -> bytes:
    """Start a gateway with the demo model, and return one streamed answer."""
    command = [python, "-m", "penstock", "serve", "--port", "0", "--store", str(folder / "store.db")]
    gateway = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert gateway.stdout is not None
    output: list[str] = []
    try:
        for line in gateway.stdout:
            output.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+/v1", line):
                body = json.dumps({"model": "demo", "input": "Count from 1 to 5.", "stream": True}).encode()
                headers = {"content-type": "application/json"}
                request = urllib.request.Request(f"{found[0]}/responses", body, headers)
                with urllib.request.urlopen(request, timeout=60) as response:
                    answer: bytes = response.read()
                    return answer
        raise AssertionError(f"the gateway did not start:\n{''.join(output)}")
    finally:
        gateway.terminate()
        gateway.wait(60)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
