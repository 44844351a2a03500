"""All checks together, in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.doctor.examination import DoctorOptions, examine
from penstock.doctor.findings import Finding
from penstock.gateway.config.options import OptionError, ServeOptions
from tests.client.server import run
from tests.doctor.model_server import ALL, ModelServer

MACHINE = ["config", "python", "extras", "port", "store", "proxy"]
TARGET = ["key", "reach", "models"]
PROBED = ["streaming", "tools", "usage", "reasoning", "structured_output"]


def config(folder: Path, *servers: ModelServer) -> Path:
    path = folder / "penstock.toml"
    targets = [
        f'[targets.t{number}]\nbase_url = "{server.url}/v1"\nquirks = {{ effort = "openai" }}\n'
        for number, server in enumerate(servers)
    ]
    path.write_text('passthrough = "t0"\n[server]\nport = 0\nstore = "none"\n' + "".join(targets))
    return path


def test_two_targets_are_examined_and_reported_as_they_are_done(tmp_path: Path) -> None:
    async def check() -> None:
        async with ModelServer() as good, ModelServer(ALL - {"tools"}) as weak:
            reported: list[Finding] = []
            options = DoctorOptions(file=config(tmp_path, good, weak))
            examination = await examine(options, {}, reported.append)
        found = examination.findings
        assert [each.id for each in found] == [*MACHINE, *TARGET, *PROBED, *TARGET, *PROBED]
        assert [each.target for each in found] == [*[""] * 6, *["t0"] * 8, *["t1"] * 8]
        assert sorted(reported, key=str) == sorted(found, key=str)
        assert [(each.target, each.id) for each in found if each.status == "problem"] == [("t1", "tools")]

    run(check())


def test_one_target_without_probes(tmp_path: Path) -> None:
    async def check() -> None:
        async with ModelServer() as one, ModelServer() as other:
            options = DoctorOptions(file=config(tmp_path, one, other), target="t1", is_quick=True)
            found = (await examine(options, {}, lambda _: None)).findings
            assert [each.id for each in found if each.target] == [*TARGET, "probes"]
            assert found[-1].status == "skipped"
            assert one.asked == []
            assert [each.target for each in other.asked] == ["/v1/models"]
            with pytest.raises(OptionError, match="--target: there is no target"):
                await examine(DoctorOptions(file=options.file, target="nobody"), {}, lambda _: None)

    run(check())


def test_the_model_that_was_asked_for_is_probed(tmp_path: Path) -> None:
    async def check() -> None:
        async with ModelServer(models=None) as server:
            path = config(tmp_path, server)
            nothing = (await examine(DoctorOptions(file=path), {}, lambda _: None)).findings[-1]
            assert (nothing.id, nothing.kind, nothing.status) == ("answer", "model", "problem")
            assert "base_url" in nothing.fix
            found = (await examine(DoctorOptions(file=path, model="mine"), {}, lambda _: None)).findings
            assert [each.id for each in found[-5:]] == PROBED
            assert {asked.json["model"] for asked in server.asked if asked.body} == {"mine"}

    run(check())


def test_nothing_else_is_checked_if_the_configuration_is_invalid(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text("port = 1\nhost = 2\n")
    examination = run(examine(DoctorOptions(file=path), {}, lambda _: None))
    assert examination.settings is None
    assert [each.id for each in examination.findings] == ["config", "config", "python", "extras", "rest"]


def test_a_target_that_needs_the_key_of_a_client_is_not_probed(tmp_path: Path) -> None:
    async def check() -> None:
        async with ModelServer(key="of a client") as server:
            path = config(tmp_path, server)
            path.write_text(path.read_text() + "pass_key = true\n")
            found = (await examine(DoctorOptions(file=path, model="m"), {}, lambda _: None)).findings
            statuses = [(each.id, each.status) for each in found if each.target]
            expected = [("key", "warning"), ("reach", "ok"), ("models", "skipped"), ("probes", "skipped")]
            assert statuses == expected
            assert len(server.asked) == 1

    run(check())


def test_an_upstream_of_the_options() -> None:
    async def check() -> None:
        async with ModelServer() as server:
            serve = ServeOptions(upstream=server.url, store="none", port=0)
            found = (await examine(DoctorOptions(serve=serve), {}, lambda _: None)).findings
            assert {each.target for each in found[-8:]} == {"upstream"}
            assert [each.status for each in found[-8:]] == ["ok"] * 8

    run(check())
