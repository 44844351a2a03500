"""deploy/Dockerfile: its instructions are run in folders, and then its command, as a container would."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.container import StartedContainer, missing
from tests.deploy.files import ROOT, compose, stages
from tests.deploy.image import Image, build
from tests.gateway.running import Running

pytestmark = [pytest.mark.deploy, pytest.mark.skipif(bool(missing()), reason=missing())]

CONSTRAINTS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build(tmp_path_factory.mktemp("image"))


class ImageUser:
    """Somebody who uses the image with a volume, as deploy/compose.yaml does."""

    def __init__(self, image: Image, folder: Path) -> None:
        self.image, self.folder = image, folder
        self.volume = folder / "volume"
        self.service = compose("compose.yaml")["services"]["gateway"]
        assert self.service["read_only"]
        assert self.service["cap_drop"] == ["ALL"]
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.environment = image.environment(PENSTOCK_PORT=str(self.port))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = [*self.image.entry, *arguments]
        return self.image.container(self.volume).run(words, self.environment, self.image.folder)

    @contextmanager
    def serving(self) -> Iterator[StartedContainer]:
        """Run the service of the compose file until its health check succeeds."""
        container, log = self.image.container(self.volume), self.folder / "log"
        words = [*self.image.entry, *self.service["command"]]
        with container.start(words, self.environment, self.image.folder, log) as running:
            for _ in range(300):
                assert running.process.poll() is None, log.read_text()
                health = running.run(self.image.health)
                if health.returncode == 0:
                    break
                assert health.returncode == 1, health.stderr
                time.sleep(0.1)
            else:
                raise AssertionError(health.stderr)
            yield running

    def gateway(self, running: StartedContainer) -> Running:
        return Running(running.process, f"http://127.0.0.1:{self.port}", self.folder / "log")


@pytest.fixture
def user(image: Image, tmp_path: Path) -> ImageUser:
    return ImageUser(image, tmp_path)


def test_the_image_has_the_package_and_nothing_else(image: Image) -> None:
    packages = next((image.root / "opt" / "penstock" / "lib").iterdir()) / "site-packages"
    installed = dict(
        folder.name.removesuffix(".dist-info").split("-") for folder in packages.glob("*.dist-info")
    )
    del installed["penstock"]
    pinned = {_plain(name): version for name, version in CONSTRAINTS.items()}
    assert {_plain(name): version for name, version in installed.items()}.items() <= pinned.items()
    assert {"asyncpg", "brotli", "redis"} <= {_plain(name) for name in installed}, "the extras"
    assert not {"pip", "rs_bpe"} & installed.keys()
    modules = list((packages / "penstock").rglob("*.py"))
    compiled = {path.parent.parent / path.name.partition(".")[0] for path in packages.rglob("*.pyc")}
    assert [path for path in modules if path.with_suffix("") not in compiled] == []
    places = {path.relative_to(image.root).as_posix() for path in image.root.glob("*/*")}
    assert places == {"opt/penstock"}, "no sources, and no cache of pip"
    owners = {path.lstat().st_uid for path in (image.root / "opt").rglob("*")}
    assert owners == {0}, "the user of the image cannot change its programs"
    size = sum(path.lstat().st_size for path in packages.rglob("*") if path.is_file())
    assert size < 80_000_000


def test_the_first_start_asks_for_a_key(user: ImageUser) -> None:
    done = user.run(*user.service["command"])
    assert done.returncode == 2
    assert "Create a key first: penstock keys create NAME" in done.stderr


def test_a_container_serves_drains_and_keeps_its_state(user: ImageUser) -> None:
    created = user.run("keys", "create", "laptop")
    assert created.returncode == 0, created.stderr
    key = created.stdout.strip()
    with user.serving() as running:
        status = Path(f"/proc/{running.pid}/status").read_text()
        assert re.search(r"^Uid:\s+10001\s+10001\s+10001\s+10001$", status, re.MULTILINE)
        assert re.search(r"^CapBnd:\s+0+$", status, re.MULTILINE)
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
        assert re.search(r"^NSpid:\s+\d+\s+1$", status, re.MULTILINE), "it is the first process"
        for place in ("/opt/penstock/bin/x", "/x", "/etc/x"):
            assert "Read-only file system" in running.run(["touch", place]).stderr
        gateway = user.gateway(running)
        assert gateway.whole("demo", headers={"authorization": "Bearer wrong"}).status == 401
        headers = {"authorization": f"Bearer {key}"}
        with gateway.live("demo", "Count from 1 to 40.", headers=headers) as live:
            live.until(b"output_text.delta")
            running.signal(getattr(signal, user.image.stage.one("STOPSIGNAL").text))
            kept = live.rest().last
        assert kept["status"] == "completed", "the turn ended before the gateway did"
        assert running.process.wait(30) == 0
    with user.serving() as running:
        path = f"/v1/responses/{kept['id']}"
        found = user.gateway(running).ask(path=path, method="GET", headers=headers)
        assert found.last["status"] == "completed", "the store is in the volume"
        running.signal(signal.SIGSTOP)
        health = running.run([*user.image.health, "--timeout", "0.2"])
        assert health.returncode == 1, "a gateway that hangs is not healthy"
        assert "no answer" in health.stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_dependency_has_a_wheel_for_the_image(machine: str) -> None:
    """The image has no compiler."""
    version = stages()[0].base.partition(":")[2].partition("-")[0]
    platforms = [f"--platform=manylinux{name}_{machine}" for name in ("2014", "_2_17", "_2_28", "_2_34")]
    names = [f"{name}=={pinned}" for name, pinned in CONSTRAINTS.items()]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--only-binary=:all:"]
    command += ["--no-deps", f"--python-version={version}", "--target=unused", *platforms, *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
