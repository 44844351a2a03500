"""Run the cases of a client in a process of its own environment, one after another.

A driver is a script in `drivers/`. It reads a JSON line per case and answers with a JSON line, so that the
client's packages, which take seconds to import, are imported once.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LONGEST = 60
"""Seconds that one case may take."""


class Driver:
    def __init__(self, command: Sequence[str | Path], base_url: str, folder: Path) -> None:
        self._command, self._base_url, self._folder = command, base_url, folder
        self._process: subprocess.Popen[str] | None = None

    def run(self, case: str, model: str, **arguments: Any) -> Any:
        """Run one case and return its result. A client's exception fails the test, with its traceback."""
        process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps({"case": case, "model": model, "arguments": arguments}) + "\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            is_late = not selector.select(LONGEST)
        line = "" if is_late else process.stdout.readline()
        if not line:
            self.close()
            stderr = (self._folder / "stderr").read_text()[-3000:]
            reason = f"did not end in {LONGEST} seconds" if is_late else "ended its process"
            raise AssertionError(f"the case {case!r} {reason}: {stderr}")
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        self._folder.mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "OPENAI_BASE_URL": self._base_url,
            "OPENAI_API_KEY": "sk-any",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "NO_PROXY": "127.0.0.1",
        }
        with (self._folder / "stderr").open("w") as stderr:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        return self._process
