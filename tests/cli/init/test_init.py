"""`penstock init`: it finds, asks, tries and writes; or writes nothing."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli import OK, PROBLEM, UsageError, build_parser, init
from penstock.dialects.presets import PRESETS
from penstock.gateway.config.file import load_settings
from penstock.gateway.server import listen
from penstock.upstream import discovery
from tests.cli.running import penstock
from tests.client.server import answer, in_a_thread
from tests.upstream.local_servers import LocalServer, listed, preset_at


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder, and an environment without keys, settings and servers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["penstock", "init"])
    monkeypatch.setattr(discovery, "LOCAL_SERVERS", ())
    for row in PRESETS.values():
        monkeypatch.delenv(row.key_variable or "none", raising=False)
    for name in ("XDG_CONFIG_HOME", "PENSTOCK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """A local server where Ollama is looked for."""
    local = LocalServer(listed("qwen3:8b", "gemma3"))
    with in_a_thread(local):
        monkeypatch.setattr(discovery, "LOCAL_SERVERS", (preset_at("ollama", local.url),))
        yield local


def run(*arguments: str) -> int:
    return init.run(build_parser("init").parse_args(["init", *arguments]))


def test_a_server_that_is_found_is_tried_and_written(
    server: LocalServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--yes") == OK
    printed = capsys.readouterr()
    assert f"   1  Ollama  {server.url}/v1, 2 models" in printed.out
    assert 'Ollama: qwen3:8b answered "Hello!"' in printed.out
    assert printed.out.endswith("\nWrote penstock.toml. Next:\n  penstock serve\n")
    assert "looking for keys" in printed.err
    file = folder / "penstock.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    settings = load_settings(file, {})
    assert (settings.default_model, settings.passthrough) == ("qwen3:8b", "ollama")
    assert settings.targets[0].base_url == f"{server.url}/v1"
    (asked,) = server.chats
    assert (asked.json["model"], asked.json["stream"]) == ("qwen3:8b", True)


def test_no_request_is_sent_to_a_model_without_a_test(server: LocalServer, folder: Path) -> None:
    assert run("--yes", "--no-test", "--output", "other.toml") == OK
    assert server.chats == []
    assert [path.name for path in folder.iterdir()] == ["other.toml"]


def test_a_model_that_does_not_answer_is_reported_and_the_file_is_written(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = LocalServer(listed("m"), chat=[answer(500, {"error": {"message": "out of\x1b[31m memory"}})])
    with in_a_thread(broken):
        monkeypatch.setattr(discovery, "LOCAL_SERVERS", (preset_at("ollama", broken.url),))
        assert run("--yes", "--output", "other.toml") == PROBLEM
    printed = capsys.readouterr().out
    assert "Ollama: m failed: " in printed
    assert "\x1b" not in printed
    assert "  penstock serve --config other.toml\n  penstock doctor --config other.toml " in printed
    assert load_settings(folder / "other.toml", {}).default_model == "m"


def test_a_vendor_is_written_with_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vendor, key = LocalServer(listed("gpt-5-mini", "gpt-4", owner="system")), "sk-planted-0123456789"
    with in_a_thread(vendor):
        row = preset_at("openai", vendor.url)
        monkeypatch.setattr(discovery, "PRESETS", {"openai": row})
        monkeypatch.setenv("OPENAI_API_KEY", key)
        assert run("--yes", "--no-test") == OK
    text = (folder / "penstock.toml").read_text()
    printed = capsys.readouterr()
    assert "OPENAI_API_KEY, 2 models" in printed.out
    assert key not in text + printed.out + printed.err
    assert "# OpenAI. Its key is in the environment variable OPENAI_API_KEY." in text
    assert 'default_model = "gpt-5-mini"' in text


def test_without_anything_a_file_with_examples_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--yes") == OK
    printed = capsys.readouterr().out
    assert printed.startswith("Found no key in the environment and no server on this machine.\n")
    assert "The gateway has only the model demo so far." in printed
    assert load_settings(folder / "penstock.toml", {}).default_model == "demo"


def test_a_file_is_replaced_only_by_force_and_after_a_backup(folder: Path) -> None:
    file = folder / "penstock.toml"
    file.write_text("# mine\n")
    file.chmod(0o640)
    (folder / "penstock.toml.bak").write_text("# older\n")
    with pytest.raises(UsageError, match=r"penstock\.toml exists: --force replaces it"):
        run("--yes")
    assert file.read_text() == "# mine\n"
    assert run("--yes", "--force") == OK
    assert 'default_model = "demo"' in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert (folder / "penstock.toml.bak").read_text() == "# older\n"
    assert (folder / "penstock.toml.bak2").read_text() == "# mine\n"


def test_a_file_that_appears_in_the_meantime_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    def free_port(_host: str, first: int) -> int:
        (folder / "penstock.toml").write_text("# theirs\n")
        return first

    monkeypatch.setattr(init, "free_port", free_port)
    with pytest.raises(UsageError, match=r"cannot write .*penstock\.toml: File exists"):
        run("--yes")
    assert (folder / "penstock.toml").read_text() == "# theirs\n"


@pytest.mark.parametrize(
    ("output", "message"),
    [(".", "is a folder"), ("no/such/file.toml", "there is no folder no/such")],
)
def test_a_file_that_cannot_be_written_is_refused_first(output: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run("--yes", "--output", output)


def test_a_port_in_use_is_not_written(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert init.free_port("127.0.0.1", port) > port
    assert init.free_port("127.0.0.1", port) == port
    monkeypatch.setattr(init, "free_port", lambda _host, first: first + 1)
    assert run("--yes", "--no-test") == OK
    assert load_settings(folder / "penstock.toml", {}).port == 8081


def test_the_port_of_a_running_gateway_is_kept(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = discovery.Discovery(gateways=("http://127.0.0.1:8080/v1",), notes=("a note\x1b",))

    async def discover(_: object) -> discovery.Discovery:
        return found

    monkeypatch.setattr(discovery, "discover", discover)
    monkeypatch.setattr(init, "free_port", lambda _host, first: first + 1)
    assert run("--yes") == OK
    assert load_settings(folder / "penstock.toml", {}).port == 8080
    printed = capsys.readouterr().err
    assert "a Penstock gateway is running at http://127.0.0.1:8080/v1; it is not used" in printed
    assert "penstock: a note\\x1b\n" in printed


def test_questions_need_a_terminal(folder: Path) -> None:
    result = penstock("init")
    assert (result.returncode, result.stdout) == (2, "")
    assert "this is not a terminal: add --yes" in result.stderr
    assert list(folder.iterdir()) == []


PROGRAM = """
import sys
from penstock.cli import main
from penstock.upstream import discovery
from tests.upstream.local_servers import preset_at
discovery.LOCAL_SERVERS = (preset_at("ollama", sys.argv.pop()),)
sys.exit(main())
"""


def on_a_terminal(url: str, folder: Path, *typed: tuple[str, bytes]) -> tuple[int, str]:
    """Run `penstock init` on a terminal: wait for each text, then type the answer. Return what was shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "init", url],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3]), "NO_COLOR": "1"},
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # becomes its controlling terminal
    )
    os.close(theirs)
    shown = b""
    try:
        for text, answer in typed:
            while text.encode() not in shown:
                shown += os.read(ours, 4096)
            os.write(ours, answer)
        while data := _read(ours):
            shown += data
        return process.wait(30), shown.decode()
    finally:
        os.close(ours)
        if process.poll() is None:
            process.kill()
            process.wait()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


def test_a_person_chooses_on_a_terminal(server: LocalServer, folder: Path) -> None:
    code, shown = on_a_terminal(
        server.url, folder, ("Enter for all: ", b"1\n"), ("Enter for 1: ", b"gemma3\n")
    )
    assert code == 0, shown
    assert 'Ollama: gemma3 answered "Hello!"' in shown
    assert load_settings(folder / "penstock.toml", {}).default_model == "gemma3"


def test_ctrl_c_leaves_nothing_behind(server: LocalServer, folder: Path) -> None:
    code, shown = on_a_terminal(server.url, folder, ("Enter for all: ", b"\n"), ("Enter for 1: ", b"\x03"))
    assert code == 130, shown
    assert list(folder.iterdir()) == []
    assert server.chats == []
