"""docs/deploy.md: installation, certificates, backup, and the commands of Docker.

`tests/e2e/test_deploy_page.py` has the rest: several machines.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import trustme

from penstock.cli import build_parser
from tests.deploy.container import missing
from tests.deploy.files import ROOT, compose, stages
from tests.deploy.programs import PATH, free_port, program, replaced
from tests.gateway.probes import wait_for
from tests.gateway.running import Running

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
DOCKER = [command for command in COMMANDS if "docker " in command]
STORE = "/var/lib/penstock"


def section(heading: str) -> list[str]:
    """Return the commands of a section of the page, without those of other sections."""
    _, text = re.split(rf"^#+ {heading}$", PAGE, maxsplit=1, flags=re.MULTILINE)
    own = re.split(r"^#+ [A-Z]", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\$ (.*)$", own, re.MULTILINE)


def typed(command: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": PATH, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


# What needs Docker


def test_the_page_has_the_commands_of_docker() -> None:
    assert {shlex.split(each)[1] for each in DOCKER} >= {"build", "run", "compose"}


@pytest.mark.parametrize("command", DOCKER)
def test_a_command_of_docker_names_what_exists(command: str) -> None:
    words = [word for word in shlex.split(command) if not re.fullmatch(r"\w+=\S+", word)]
    for option, path in pairwise(words):
        if option == "--file":
            assert (ROOT / path).is_file(), path
    if words[1] == "build":
        assert words[-1] == ".", "the folder that .dockerignore is in"
        return
    if words[1] == "compose":
        services = compose(Path(words[words.index("--file") + 1]).name)["services"]
        named = [word for before, word in pairwise(words) if word in services and before != "--entrypoint"]
        assert named or words[4] == "up"
        rest = words[words.index(named[0]) + 1 :] if named else []
        assert all(each["image"] == "penstock:local" for each in services.values() if "build" in each)
    else:
        rest = words[words.index("penstock:local") + 1 :]
    if rest[:1] == ["keys"]:
        assert build_parser("keys").parse_args(rest).action == "create"


def test_docker_confines_the_image_as_compose_does() -> None:
    [run] = [command for command in DOCKER if "--detach --read-only" in command]
    [service] = compose("compose.yaml")["services"].values()
    words = shlex.split(run)
    assert words[words.index("--tmpfs") + 1 : words.index("--tmpfs") + 2] == service["tmpfs"]
    assert [words[words.index("--publish") + 1]] == service["ports"]
    assert f"{words[words.index('--stop-timeout') + 1]}s" == service["stop_grace_period"]
    assert words[words.index("--volume") + 1].endswith(f":{stages()[-1].one('VOLUME').text}")


# What does not


@pytest.mark.deploy
def test_the_secrets_for_compose_are_readable_in_a_folder_that_is_not(tmp_path: Path) -> None:
    for command in section("Two gateways with Compose"):
        if "deploy/secrets" in command:
            (tmp_path / "deploy").mkdir(exist_ok=True)
            typed(command, tmp_path, MODEL_KEY="sk-planted")
    folder = tmp_path / "deploy" / "secrets"
    assert folder.stat().st_mode & 0o777 == 0o700
    expected = compose("compose.scale.yaml")["secrets"]
    assert {path.name for path in folder.iterdir()} == {*expected}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o444}
    assert (folder / "model_key").read_text() == "sk-planted\n"
    assert len((folder / "store_password").read_text().strip()) == 48


@pytest.mark.deploy
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_installation_for_systemd(tmp_path: Path) -> None:
    """In a namespace with a copy of /etc; systemd itself, and what pip does, are left out."""
    commands = section("A service of systemd")
    skipped = [each for each in commands if "pip install" in each or "-m venv" in each or "systemctl" in each]
    assert len(skipped) == 3
    environment = Path(sys.executable).parent.parent
    subprocess.run(["cp", "--archive", "/etc", tmp_path / "etc"], check=True)
    (tmp_path / "opt" / "penstock").mkdir(parents=True)
    binds = {f"{tmp_path}/etc": "/etc", f"{tmp_path}/opt": "/opt", environment: "/opt/penstock"}
    mounts = ["mount --make-rprivate /", *(f"mount --bind {what} {place}" for what, place in binds.items())]
    script = "\n".join(["set -e", *mounts, f"cd {ROOT}", *(each for each in commands if each not in skipped)])
    shown = typed(shlex.join(["unshare", "--mount", "bash", "-c", script]), tmp_path)
    assert shown.startswith("pk_")
    assert (tmp_path / "etc" / "systemd" / "system" / "penstock.service").is_file()
    config = tmp_path / "etc" / "penstock" / "penstock.toml"
    assert config.stat().st_mode & 0o777 == 0o644, "the service can read it, and it has no secrets"
    assert 'name = "laptop"' in config.read_text()
    assert (tmp_path / "etc" / "penstock" / "secrets").stat().st_mode & 0o777 == 0o700
    [user] = re.findall(r"^penstock:.*$", (tmp_path / "etc" / "passwd").read_text(), re.MULTILINE)
    assert user.endswith(f":{STORE}:/usr/sbin/nologin")


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Running]:
    port = free_port()
    words = ["penstock", "serve", "--port", str(port), *options]
    with program(words, port, folder, {**os.environ, "PATH": PATH, "HOME": str(folder)}) as running:
        yield running


@pytest.mark.deploy
@pytest.mark.parametrize("kind", ["sqlite3", "python"])
def test_a_restored_backup_has_what_was_stored(tmp_path: Path, kind: str) -> None:
    live, backup = tmp_path / "live", tmp_path / "backup"
    backup.mkdir()
    names = {STORE: str(live), "/backup": str(backup)}
    save, copy, in_container, remove, put_back = section("SQLite")
    if kind == "python":
        program_text = shlex.split(in_container)[-1]
        program_text = replaced(
            program_text, {"'penstock/": f"'{live}/", "/data/backup.sqlite": f"{backup}/responses.sqlite"}
        )
        save = shlex.join([sys.executable, "-c", program_text])
    elif shutil.which("sqlite3") is None:
        pytest.skip("needs sqlite3 (Debian: apt-get install sqlite3)")
    else:
        save = replaced(save, names)
    live.mkdir()
    options = ("--config", os.devnull, "--store", str(live / "responses.sqlite"))
    with served(tmp_path, *options) as running:
        kept = running.whole("demo", "Hello!").last["id"]
        with running.live("demo", "Count from 1 to 40.") as stream:
            stream.until(b"output_text.delta")
            typed(save, tmp_path)  # while it writes
            interrupted = re.search(rb'"id":"(resp_\w+)"', stream.body)
            stream.rest()
        typed(replaced(copy, names), tmp_path)
        running.whole("demo", "Forgotten")
    for path in live.iterdir():
        path.write_bytes(b"damaged")
    typed(replaced(remove, {STORE: str(live)}), tmp_path)
    typed(replaced(put_back, names), tmp_path)
    with served(tmp_path, *options) as running:
        assert running.ask(path=f"/v1/responses/{kept}", method="GET").last["status"] == "completed"
        follow_up = running.whole("demo", "And?", previous_response_id=kept)
        assert follow_up.last["status"] == "completed"
        assert interrupted is not None
        assert (
            running.ask(path=f"/v1/responses/{interrupted[1].decode()}", method="GET").last["status"]
            == "failed"
        )


@pytest.mark.deploy
def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    [hook] = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    authority = trustme.CA()
    lineage = tmp_path / "lineage"
    lineage.mkdir()

    def renew(*commands: str) -> None:
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        certificate.private_key_pem.write_to_path(lineage / "privkey.pem")
        chain = b"".join(each.bytes() for each in certificate.cert_chain_pems)
        (lineage / "fullchain.pem").write_bytes(chain)
        names = {
            "/etc/penstock": str(tmp_path),
            " --group penstock": "",
            "systemctl reload penstock": "\n".join(commands),
        }
        typed(replaced(hook, names), tmp_path, RENEWED_LINEAGE=str(lineage))

    renew()
    (tmp_path / "penstock.toml").write_text('[server]\ntls_cert = "gateway.pem"\ntls_key = "gateway.key"\n')
    with served(tmp_path, "--config", "penstock.toml", "--store", "none") as running:
        where = (running.address.hostname or "", running.address.port or 0)
        before = ssl.get_server_certificate(where)
        renew(f"kill -{signal.SIGHUP.value} {running.process.pid}")
        wait_for(lambda: ssl.get_server_certificate(where) != before)
        # Clients that trust the authority go on.
        trusted = tmp_path / "authority.pem"
        authority.cert_pem.write_to_path(trusted)
        typed(f"penstock health --url https://localhost:{where[1]}", tmp_path, SSL_CERT_FILE=str(trusted))
