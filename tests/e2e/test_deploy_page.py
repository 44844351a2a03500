"""docs/deploy.md: its commands, and its load balancers in front of two gateways that share a database."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.client.server import chunk, send
from tests.deploy.programs import PATH, free_port, program, replaced
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import Running
from tests.gateway.upstream import LAST_CHUNK, ScriptedUpstream, begun, frames, said, streamed, until
from tests.gateway.websocket_client import talking
from tests.store.postgres.cluster import PostgresCluster
from tests.store.redis_server import RedisServer

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
ADDRESSES = ("10.0.0.11:8080", "10.0.0.12:8080")
PASSWORD = "planted-password"
WORDS = ("one", "two", "three", "four")

Balancer = Callable[["Site", int, Mapping[str, str]], list[str]]

pytestmark = pytest.mark.e2e


def block(language: str, containing: str) -> str:
    [found] = [
        text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if containing in text
    ]
    return str(found)


def command(containing: str) -> str:
    [found] = [line for line in re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE) if containing in line]
    return str(found)


class Site:
    """A database, Redis, and a folder that is the machine's working directory."""

    def __init__(
        self, folder: Path, upstream: ScriptedUpstream, cluster: PostgresCluster, redis: RedisServer
    ):
        self.folder, self.cluster = folder, cluster
        self.environment = {
            **os.environ,
            "PATH": PATH,
            "PGHOST": "127.0.0.1",
            "PGPORT": str(cluster.port),
            "PGUSER": "postgres",
            "PGPASSWORD": PASSWORD,
            "STORE_PASSWORD": PASSWORD,
            "REDIS_PASSWORD": PASSWORD,
            "MODEL_KEY": "sk-unused",
            "XDG_DATA_HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        }
        self.hosts = {"db.internal:5432": f"127.0.0.1:{cluster.port}"}
        file = replaced(
            block("toml", "passthrough"),
            {
                **self.hosts,
                "cache.internal:6379": f"127.0.0.1:{redis.port}",
                "http://models.internal:8000": upstream.url,
                "0.0.0.0": "127.0.0.1",
            },
        )
        (folder / "penstock.toml").write_text(file)

    def type(self, typed: str) -> str:
        done = subprocess.run(
            ["bash", "-c", typed],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done
        return done.stdout

    def run(self, containing: str) -> str:
        """Run a command of the page."""
        return self.type(command(containing).replace("db.internal:5432", self.hosts["db.internal:5432"]))

    @contextmanager
    def program(self, typed: list[str], port: int) -> Iterator[Running]:
        """Run a server until the end of the block, and wait until it accepts connections."""
        with program(typed, port, self.folder, self.environment) as running:
            yield running

    @contextmanager
    def gateway(self, *options: str) -> Iterator[Running]:
        port = free_port()
        serve = [*command("penstock serve").split(), "--port", str(port), *options]
        with self.program(serve, port) as running:
            asking = replaced(command("curl"), {"127.0.0.1:8080": running.address.netloc})
            while '"ready"' not in subprocess.run(asking.split(), capture_output=True, text=True).stdout:
                assert running.process.poll() is None
            yield running


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PostgresCluster, RedisServer]]:
    redis = RedisServer()
    cluster = PostgresCluster()
    try:
        cluster.start()
        redis.start()
        yield cluster, redis
    finally:
        redis.stop()
        cluster.remove()


@pytest.fixture
def site(tmp_path: Path, upstream: ScriptedUpstream, servers: tuple[PostgresCluster, RedisServer]) -> Site:
    site = Site(tmp_path, upstream, *servers)
    site.type("dropdb --if-exists penstock; dropuser --if-exists penstock")
    site.type(command("createuser").replace(" --pwprompt", ""))
    site.run("createdb")
    return site


def nginx(site: Site, port: int, backends: Mapping[str, str]) -> list[str]:
    if shutil.which("nginx", path=PATH) is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx)")
    page = replaced(
        block("nginx", "upstream penstock"), {**backends, "listen 443 ssl": f"listen 127.0.0.1:{port}"}
    )
    page = re.sub(r"^ *ssl_certificate.*\n", "", page, flags=re.MULTILINE)
    folders = "".join(
        f"{kind}_temp_path {site.folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"daemon off; master_process off; pid {site.folder}/nginx.pid; events {{}}"
    file = site.folder / "nginx.conf"
    file.write_text(f"{main}\nhttp {{\naccess_log off;\n{folders}{page}}}\n")
    return ["nginx", "-p", str(site.folder), "-e", "stderr", "-c", str(file)]


def caddy(site: Site, port: int, backends: Mapping[str, str]) -> list[str]:
    if shutil.which("caddy", path=PATH) is None:
        pytest.skip("Caddy is not installed (Debian: apt-get install caddy)")
    names = {**backends, "gateway.example.com {": f"http://127.0.0.1:{port} {{"}
    file = site.folder / "Caddyfile"
    file.write_text("{\n admin off\n}\n" + replaced(block("text", "reverse_proxy"), names))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)]


@pytest.mark.parametrize("balancer", [nginx, caddy])
def test_a_load_balancer_passes_everything_on(
    balancer: Balancer, site: Site, upstream: ScriptedUpstream
) -> None:
    port = free_port()
    headers = {"authorization": f"Bearer {site.run('penstock keys create team').strip()}"}
    with ExitStack() as stack:
        gateways = [stack.enter_context(site.gateway("--workers", "1")) for _ in ADDRESSES]
        backends = {address: each.address.netloc for address, each in zip(ADDRESSES, gateways, strict=True)}
        front = stack.enter_context(site.program(balancer(site, port, backends), port))
        assert front.ask(path="/readyz", method="GET").status == 200
        kept = _events_arrive_one_by_one(front, upstream, headers)
        upstream.play("socket", streamed(*said("over a WebSocket")))
        with talking(front, additional_headers=headers) as talk:
            assert talk.response("socket", stream=True)["status"] == "completed"
        _nothing_is_sent_twice(front, gateways[0], upstream, headers)
        upstream.play("again", streamed(*said("still here")))
        for _ in range(6):
            assert front.stream("again", headers=headers).text == "still here"
        assert front.ask(path=f"/v1/responses/{kept}", method="GET", headers=headers).status == 200


def _events_arrive_one_by_one(front: Running, upstream: ScriptedUpstream, headers: Mapping[str, str]) -> str:
    """The upstream sends a word only when the one before has arrived. Return the id of the response."""
    arrived = {word: threading.Event() for word in WORDS}
    script = begun(chat_chunk({"content": "zero"}))
    for word, event in arrived.items():
        script += [until(event), send(chunk(frames(chat_chunk({"content": word}), done=False)))]
    script += [send(chunk(frames(chat_chunk(finish="stop"))) + LAST_CHUNK)]
    upstream.play("slow", script)
    with front.live("slow", headers=dict(headers)) as live:
        for word, before in zip(WORDS, ("zero", *WORDS), strict=False):
            live.until(f'"delta":"{before}"'.encode())
            arrived[word].set()
        reply = live.rest()
    assert reply.text == "zero" + "".join(WORDS)
    return str(reply.last["id"])


def _nothing_is_sent_twice(
    front: Running, victim: Running, upstream: ScriptedUpstream, headers: Mapping[str, str]
) -> None:
    """Two requests run, one at each gateway. If one of these dies, its request fails and is not repeated."""
    released = threading.Event()
    upstream.play("held", [until(released), *streamed(*said("at last"))])
    statuses: list[int] = []

    def ask() -> None:
        connection = front.connect()
        body = json.dumps({"model": "held", "input": "x"}).encode()
        connection.request("POST", "/v1/responses", body, {"content-type": "application/json", **headers})
        statuses.append(connection.getresponse().status)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in ADDRESSES]
    for thread in threads:
        thread.start()
    for _ in range(500):
        if len(upstream.asked_for("held")) == len(threads):
            break
        time.sleep(0.02)
    os.killpg(victim.process.pid, signal.SIGKILL)
    victim.process.wait()
    for _ in range(500):
        if statuses:
            break
        time.sleep(0.02)
    released.set()
    for thread in threads:
        thread.join(20)
    # The balancer may have chosen one gateway for both requests.
    assert set(statuses) <= {200, 502}
    assert len(upstream.asked_for("held")) == len(threads), "no request is repeated"


def test_the_commands_of_the_page(site: Site) -> None:
    assert "create the tables" in site.run("store migrate --store postgresql://penstock@db")
    for name in re.search(r"penstock\[(.*)\]", command("pip install '"))[1].split(","):  # type: ignore[index]
        assert (
            name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        )
    old = site.folder / "responses.sqlite"
    port = free_port()
    on_sqlite = ["penstock", "serve", "--config", os.devnull, "--port", str(port), "--store", str(old)]
    with site.program(on_sqlite, port) as running:
        first = running.whole("demo", "Hello!")
    id = first.last["id"]
    printed = site.run("store import")
    assert "1 response" in printed
    assert "penstock.secret was moved as well" in printed
    site.run("penstock keys create team")
    site.run("pg_dump")
    database = (
        f"penstock store stats --json --store postgresql://penstock@127.0.0.1:{site.cluster.port}/penstock"
    )
    before = json.loads(site.type(database))
    site.type("psql -qc 'DROP SCHEMA penstock CASCADE' penstock")
    site.run("pg_restore")
    assert "no background response was waiting" in site.run("store fail-queued")
    assert json.loads(site.type(database)) == before
    site.run("store export -o")
    assert id in (site.folder / "kept.jsonl").read_text()
    with site.gateway() as running:  # which asks whether it is ready
        assert running.ask(path="/healthz", method="GET").status == 200


def test_a_gateway_works_through_the_pooler_of_the_page(site: Site, upstream: ScriptedUpstream) -> None:
    if shutil.which("pgbouncer", path=PATH) is None:
        pytest.skip("PgBouncer is not installed (Debian: apt-get install pgbouncer)")
    port, folder = free_port(), site.cluster.folder
    (folder / "users").write_text(f'"penstock" "{PASSWORD}"\n')
    lines = [
        "[databases]",
        f"penstock = host=127.0.0.1 port={site.cluster.port}",
        "[pgbouncer]",
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
        f"auth_type = trust\nauth_file = {folder}/users",
        "pool_mode = transaction\ndefault_pool_size = 2\n",
    ]
    (folder / "pooler.ini").write_text("\n".join(lines))
    pooled = replaced(
        block("toml", "direct_url"), {**site.hosts, "pooler.internal:6432": f"127.0.0.1:{port}"}
    )
    file = site.folder / "penstock.toml"
    [before] = re.findall(r"\[store\]\n.*\n.*\n", file.read_text())
    file.write_text(replaced(file.read_text(), {before: pooled}))
    headers = {"authorization": f"Bearer {site.run('penstock keys create team').strip()}"}
    unprivileged = ["setpriv", "--reuid=nobody", "--clear-groups"] if os.geteuid() == 0 else []
    upstream.play("pooled", streamed(*said("through the pooler")))
    with (
        site.program([*unprivileged, "pgbouncer", str(folder / "pooler.ini")], port),
        site.gateway("--workers", "2") as running,
    ):
        for _ in range(4):
            reply = running.stream("pooled", headers=headers)
            assert reply.text == "through the pooler"
            path = f"/v1/responses/{reply.last['id']}"
            assert running.ask(path=path, method="GET", headers=headers).last["status"] == "completed"
