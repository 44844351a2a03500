"""deploy/compose.scale.yaml: the commands and variables of its services, as processes of this machine.

The images of PostgreSQL, Valkey and Caddy are not pulled: the machine's own programs take their place.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.container import missing
from tests.deploy.files import DEPLOY, compose
from tests.deploy.programs import PATH, free_port, program, replaced
from tests.gateway.running import Running
from tests.gateway.upstream import ScriptedUpstream, said, streamed
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.deploy

PASSWORD = "planted-password"
HOSTS = ("127.0.0.2", "127.0.0.3")
"""Of the two gateways."""


class ScaledSite:
    """The files of deploy/ in a folder, with the addresses of this machine."""

    def __init__(self, folder: Path, upstream: ScriptedUpstream, cluster: PostgresCluster) -> None:
        self.folder, self.cluster = folder, cluster
        self.services: dict[str, Any] = compose("compose.scale.yaml")["services"]
        self.cache_port, self.gateway_port, self.port = free_port(), free_port(), free_port()
        shutil.copytree(DEPLOY / "scale", folder / "scale")
        (folder / "secrets").mkdir()
        for name in ("store_password", "redis_password", "model_key"):
            (folder / "secrets" / name).write_text(f"{PASSWORD}\n")
        self.edit(
            "penstock.toml",
            {
                "database:5432": f"127.0.0.1:{cluster.port}",
                "cache:6379": f"127.0.0.1:{self.cache_port}",
                "http://models.internal:8000": upstream.url,
            },
        )

    def edit(self, name: str, values: Mapping[str, str]) -> Path:
        file = self.folder / "scale" / name
        file.write_text(replaced(file.read_text(), values))
        return file

    def environment(self, service: str, **more: str) -> dict[str, str]:
        """The variables of a service, with paths of this machine."""
        text = json.dumps(self.services[service].get("environment", {}))
        text = text.replace("/run/secrets", f"{self.folder}/secrets").replace(
            "/etc/penstock", f"{self.folder}/scale"
        )
        given: dict[str, str] = json.loads(text)
        return {"PATH": PATH, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder), **given, **more}

    def run(self, words: list[str], **environment: str) -> str:
        variables = {"PATH": PATH, "HOME": str(self.folder), **environment}
        done = subprocess.run(
            words, cwd=self.folder / "scale", env=variables, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def create_database(self) -> None:
        given = self.services["database"]["environment"]
        connect = {"PGHOST": "127.0.0.1", "PGPORT": str(self.cluster.port), "PGUSER": "postgres"}
        self.run(["createuser", given["POSTGRES_USER"]], **connect)
        self.run(["createdb", "--owner", given["POSTGRES_USER"], given["POSTGRES_DB"]], **connect)
        health = self.services["database"]["healthcheck"]["test"]
        self.run([*health[1:], "--port", str(self.cluster.port)])

    @contextmanager
    def cache(self) -> Iterator[Running]:
        shell, options, script = self.services["cache"]["command"]
        names = {
            "/run/secrets": f"{self.folder}/secrets",
            "/data": str(self.folder),
            "exec valkey-server": f"exec {shutil.which('valkey-server') or 'redis-server'}",
            "$$": "$",  # compose needs two
        }
        script = f"{replaced(script, names).rstrip()} --bind 127.0.0.1 --port {self.cache_port}"
        with program(
            [shell, options, script], self.cache_port, self.folder, self.environment("cache")
        ) as cache:
            [kind, health] = self.services["cache"]["healthcheck"]["test"]
            assert kind == "CMD-SHELL"
            client = shutil.which("valkey-cli") or "redis-cli"
            health = health.replace("valkey-cli", f"{client} -p {self.cache_port}")
            self.run(["sh", "-c", health])
            assert "NOAUTH" in self.run([client, "-p", str(self.cache_port), "get", "x"])
            yield cache

    @contextmanager
    def gateway(self, host: str) -> Iterator[Running]:
        where = {"PENSTOCK_HOST": host, "PENSTOCK_PORT": str(self.gateway_port)}
        words = ["penstock", *self.services["gateway"]["command"]]
        environment = self.environment("gateway", **where)
        with program(words, self.gateway_port, self.folder, environment, host=host) as running:
            self.run(["penstock", "health"], **environment)
            yield running

    @contextmanager
    def balancer(self) -> Iterator[Running]:
        """Caddy, in a namespace in which the name of the gateways stands for both addresses."""
        file = self.edit("Caddyfile", {"gateway 8080": f"gateway {self.gateway_port}"})
        file.write_text("{\n admin off\n}\n" + file.read_text())
        hosts = self.folder / "hosts"
        hosts.write_text("".join(f"{host} gateway\n" for host in HOSTS))
        start = shlex.join(["caddy", "run", "--adapter", "caddyfile", "--config", str(file)])
        script = f"mount --make-rprivate / && mount --bind {hosts} /etc/hosts && exec {start}"
        words = ["unshare", "--mount", "sh", "-c", script]
        environment = self.environment("balancer", SITE=f"http://127.0.0.1:{self.port}")
        with program(words, self.port, self.folder, environment) as running:
            yield running


@pytest.fixture
def site(tmp_path: Path, upstream: ScriptedUpstream) -> Iterator[ScaledSite]:
    if missing():
        pytest.skip(missing())
    if shutil.which("caddy", path=PATH) is None:
        pytest.skip("Caddy is not installed (Debian: apt-get install caddy)")
    if not (shutil.which("valkey-server") or shutil.which("redis-server")):
        pytest.skip("neither Valkey nor Redis is installed (Debian: apt-get install redis-server)")
    cluster = PostgresCluster()
    try:
        cluster.start()
        yield ScaledSite(tmp_path, upstream, cluster)
    finally:
        cluster.remove()


def test_the_services_together(site: ScaledSite, upstream: ScriptedUpstream) -> None:
    os.chmod(site.folder / "scale" / "penstock.toml", 0o644)
    key = site.run(["penstock", "keys", "create", "laptop"])
    mode = (site.folder / "scale" / "penstock.toml").stat().st_mode
    assert mode & 0o777 == 0o644, "the user of the image can still read it"
    headers = {"authorization": f"Bearer {key}"}
    site.create_database()
    with site.cache(), ExitStack() as stack:
        migrate = ["penstock", *site.services["migrate"]["command"]]
        assert "create the tables" in site.run(migrate, **site.environment("migrate"))
        gateways = [stack.enter_context(site.gateway(host)) for host in HOSTS]
        front = stack.enter_context(site.balancer())
        upstream.play("m", streamed(*said("through all of it")))
        kept = front.stream("m", headers=headers).last["id"]
        for gateway in gateways:
            path = f"/v1/responses/{kept}"
            assert gateway.ask(path=path, method="GET", headers=headers).last["status"] == "completed"
        assert front.whole("m", headers={"authorization": "Bearer wrong"}).status == 401
        assert gateways[0].stop() == 0
        # Caddy before 2.11.2 tries another gateway only for requests without a body.
        for _ in range(8):
            assert front.ask(path=path, method="GET", headers=headers).status == 200
