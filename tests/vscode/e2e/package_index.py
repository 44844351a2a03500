"""A package index on this machine that records the names that `pip` looks up."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class PackageIndex:
    """The wheels of a folder, under `/simple/NAME/` and `/wheels/FILE`."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.looked_up: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make `pip` use this index only, whatever the machine has configured."""
        nothing = ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")
        return {
            "PIP_INDEX_URL": f"{self.url}/simple/",
            "PIP_CONFIG_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1",
            **dict.fromkeys(nothing, ""),
        }

    def answer(self, path: str) -> bytes | None:
        """Return the content at a path, or None if there is none."""
        if found := re.fullmatch(r"/simple/([^/]+)/", path):
            self.looked_up.append(found[1])
            names = [each.name for each in self.folder.glob("*.whl") if _project(each.name) == found[1]]
            return "".join(f'<a href="/wheels/{name}">{name}</a>\n' for name in names).encode() or None
        file = self.folder / Path(path).name
        return file.read_bytes() if path == f"/wheels/{file.name}" and file.is_file() else None


def _project(wheel: str) -> str:
    """Return the normalised name of a wheel's project, as `pip` asks for it."""
    return re.sub(r"[-_.]+", "-", wheel.partition("-")[0]).lower()


@contextmanager
def package_index(folder: Path) -> Iterator[PackageIndex]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = index.answer(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index = PackageIndex(folder, f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
