"""The files in deploy/: what holds for all of them, and between them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.gateway.config.file import read_settings
from penstock.gateway.settings import Limits
from tests.deploy.files import DEPLOY, ROOT, compose, stages
from tests.deploy.units import unit

COMPOSE_FILES = ("compose.yaml", "compose.scale.yaml")
SECRETS = ("STORE_PASSWORD", "REDIS_PASSWORD", "MODEL_KEY")


def services() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in COMPOSE_FILES:
        for name, service in compose(file)["services"].items():
            yield f"{file}: {name}", service


def _seconds(text: str) -> int:
    assert re.fullmatch(r"\d+s", text), text
    return int(text[:-1])


def scale_settings() -> Any:
    text = (DEPLOY / "scale" / "penstock.toml").read_text(encoding="utf-8")
    return read_settings(text, file="", environment=dict.fromkeys(SECRETS, "secret"))


def test_every_service_is_confined() -> None:
    for name, service in services():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name
        assert "privileged" not in service, name
        user = service.get("user", "")
        assert "build" in service or user not in ("", "root", "0", "0:0"), name


def test_only_the_load_balancer_can_be_reached_from_other_machines() -> None:
    for name, service in services():
        public = [port for port in service.get("ports", ()) if not port.startswith("127.0.0.1:")]
        assert not public or name.endswith(": balancer"), name


def test_what_others_wait_for_has_a_health_check() -> None:
    for file in COMPOSE_FILES:
        all_services = compose(file)["services"]
        for service in all_services.values():
            for name, condition in service.get("depends_on", {}).items():
                awaited = all_services[name]
                if condition["condition"] == "service_healthy":
                    assert "healthcheck" in awaited or "build" in awaited, name
                else:
                    assert awaited["restart"] == "no", f"{name} ends by itself"


def test_a_container_is_stopped_only_after_its_turns() -> None:
    [one] = compose("compose.yaml")["services"].values()
    assert _seconds(one["stop_grace_period"]) > Limits().drain
    gateway = compose("compose.scale.yaml")["services"]["gateway"]
    assert _seconds(gateway["stop_grace_period"]) > scale_settings().limits.drain


def test_every_secret_is_a_file() -> None:
    file = compose("compose.scale.yaml")
    gateway = file["services"]["gateway"]
    given = {name: value for name, value in gateway["environment"].items() if name.endswith("_FILE")}
    assert given == {f"{name}_FILE": f"/run/secrets/{name.lower()}" for name in SECRETS}
    assert {*gateway["secrets"]} == {*file["secrets"]} == {name.lower() for name in SECRETS}
    text = (DEPLOY / "scale" / "penstock.toml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$?\b([A-Z]+_(?:PASSWORD|KEY))\b", text)) == set(SECRETS)
    for name, service in services():
        for variable, value in service.get("environment", {}).items():
            assert variable.endswith("_FILE") or "PASSWORD" not in variable, name
            assert "secret" not in str(value) or value.startswith("/run/secrets/"), name
            used = value.removeprefix("/run/secrets/") if value.startswith("/run/secrets/") else None
            assert used is None or used in service["secrets"], name


def test_the_image_has_one_unprivileged_user() -> None:
    last = stages()[-1]
    user = last.one("USER").text
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user), "a number: Kubernetes cannot check names"
    for name, service in services():
        for place in service.get("tmpfs", ()):
            if "uid=" in place:
                assert "uid={}:{}".replace(":", ",gid=").format(*user.split(":")) in place, name
    assert last.one("HEALTHCHECK").text.endswith('CMD ["penstock", "health"]')
    assert last.one("ENTRYPOINT").words == ["penstock"], "it is the first process, so it gets the signals"


def test_every_copied_file_gets_into_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines, "nothing else gets in"
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        word
        for stage in stages()
        for step in stage.all("COPY")
        if not step.text.startswith("--from=")
        for word in step.text.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_the_build_arguments_are_extras_of_the_package() -> None:
    [extras] = [step.variables["EXTRAS"] for step in stages()[0].all("ARG")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*extras.split(",")} <= project["optional-dependencies"].keys()


def test_systemd_waits_longer_than_the_gateway() -> None:
    service = unit(DEPLOY / "penstock.service")["Service"]
    assert _seconds(service["TimeoutStopSec"][-1]) > scale_settings().limits.drain


def test_every_file_is_explained() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    files = [path.relative_to(ROOT) for path in DEPLOY.rglob("*") if path.is_file() and path.name[0] != "."]
    assert files
    assert [str(path) for path in files if str(path) not in page] == []


@pytest.mark.parametrize("name", [*COMPOSE_FILES])
def test_relative_paths_exist_or_are_made_by_the_user(name: str) -> None:
    made = {"./secrets/store_password", "./secrets/redis_password", "./secrets/model_key"}
    text = (DEPLOY / name).read_text(encoding="utf-8")
    for path in re.findall(r"(?<![\w/.])\./[\w/.]+", text):
        assert path in made or Path(DEPLOY / path).exists(), path
