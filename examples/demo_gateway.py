"""Start a gateway with the built-in demo model, and ask it one question."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import penstock as p


@contextmanager
def demo_gateway() -> Iterator[str]:
    """Run `penstock serve` on a free port, without a configuration and a store; yield its base URL."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder, "ready")
        options = ["--port", "0", "--store", "none", "--log-level", "error", "--ready-file", str(ready)]
        command = [sys.executable, "-m", "penstock", "serve", *options]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            while not (ready.exists() and ready.read_text()):
                if process.poll() is not None:
                    sys.exit("the gateway did not start")
                time.sleep(0.05)
            yield ready.read_text().strip() + "/v1"
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    with demo_gateway() as url, p.SyncOpenResponsesClient(p.ClientConfig(base_url=url)) as client:
        request = p.CreateResponse(model="demo", input="Say exactly: the gateway works")
        print(client.create(request).output_text)
