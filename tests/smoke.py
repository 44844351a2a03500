"""Install built archives into clean environments and try them: `python tests/smoke.py dist/*.whl`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_MEGABYTES = 60
"""What `pip install penstock` may take on the disk, with its dependencies."""


def main(archives: list[str]) -> int:
    if not archives:
        print("usage: python tests/smoke.py ARCHIVE...", file=sys.stderr)
        return 2
    for archive in archives:
        with tempfile.TemporaryDirectory(prefix="penstock-smoke-") as folder:
            _try(Path(archive).resolve(), Path(folder))
        print(f"{Path(archive).name}: installed into a clean environment and works")
    return 0


def _check_contents(wheel: Path) -> None:
    """Check that installing the wheel adds the package and its metadata, and no code that runs at startup."""
    names = zipfile.ZipFile(wheel).namelist()
    others = [name for name in names if not re.match(r"penstock(-[\w.]+\.dist-info)?/", name)]
    assert others == [], f"{wheel.name} contains {others}"
    assert not [name for name in names if name.endswith(".pth")], f"{wheel.name} contains a .pth file"


def _try(archive: Path, folder: Path) -> None:
    if archive.suffix == ".whl":
        _check_contents(archive)
    venv.create(folder / "env", with_pip=True)
    python = str(folder / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(archive)]
    before = _megabytes(folder)
    subprocess.run(install, check=True, cwd=folder)
    size = _megabytes(folder) - before
    assert size <= MOST_MEGABYTES, (
        f"{archive.name} installs {size:.0f} MB; at most {MOST_MEGABYTES} are allowed"
    )
    print(f"{archive.name}: {size:.0f} MB with its dependencies")
    version = _run(python, folder, "--version").split()[-1]
    assert version in archive.name, f"{archive.name} installs version {version}"
    # Import every public name, so that no module is missing from the archive.
    subprocess.run(
        [python, "-c", "import penstock; [getattr(penstock, name) for name in penstock.__all__]"],
        check=True,
        cwd=folder,
    )
    with _gateway(python, folder) as url:
        stream = _ask(
            url, json.dumps({"model": "demo", "input": "Count from 1 to 5.", "stream": True}).encode()
        )
        _check_missing_extras(url)
        _check_page(url)
    (folder / "answer.sse").write_bytes(stream)
    assert "lawful" in _run(python, folder, "check", "answer.sse")
    assert b"response.completed" in stream


def _run(python: str, folder: Path, *arguments: str) -> str:
    command = [python, "-m", "penstock", *arguments]
    return subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True).stdout


def _megabytes(folder: Path) -> float:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir()) / 1_000_000


@contextmanager
def _gateway(python: str, folder: Path) -> Iterator[str]:
    """Start a gateway with the demo model, and yield its URL."""
    command = [python, "-m", "penstock", "serve", "--port", "0", "--store", str(folder / "store.db")]
    command += ["--upstream", "http://127.0.0.1:9/v1"]  # accepts every name, but only `demo` is asked
    gateway = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert gateway.stdout is not None
    output: list[str] = []
    try:
        for line in gateway.stdout:
            output.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+/v1", line):
                yield found[0]
                break
        else:
            raise AssertionError(f"the gateway did not start:\n{''.join(output)}")
    finally:
        gateway.terminate()
        gateway.wait(60)


def _ask(url: str, body: bytes, path: str = "/responses") -> bytes:
    request = urllib.request.Request(f"{url}{path}", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: bytes = response.read()
        return answer


def _check_page(url: str) -> None:
    """Load the page and the files that it names, so that none is missing from the archive."""
    root = url.removesuffix("/v1")
    request = urllib.request.Request(f"{root}/", headers={"accept": "text/html"})
    with urllib.request.urlopen(request, timeout=30) as page:
        assert page.headers["content-security-policy"]
        text = page.read().decode()
    for name in ("inspector/api/session", *re.findall(r'(?:src|href)="(inspector/[^"]+)"', text)):
        with urllib.request.urlopen(f"{root}/{name}", timeout=30) as file:
            assert file.read(), name


def _check_missing_extras(url: str) -> None:
    """The environment has no extras: what needs one says so."""
    request = urllib.request.Request(f"{url}/responses", b"anything", {"content-encoding": "br"})
    refusal = None
    try:
        urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        refusal = error.code, json.load(error)["error"]["message"]
    assert refusal is not None, "a body in brotli was accepted"
    assert refusal[0] == 415, refusal
    assert "pip install 'penstock[brotli]'" in refusal[1], refusal
    counted = json.loads(_ask(url, b'{"model": "gpt-5-mini", "input": "Hello!"}', "/responses/input_tokens"))
    assert "pip install 'penstock[tokens]'" in counted["diagnostics"][0]["message"], counted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
