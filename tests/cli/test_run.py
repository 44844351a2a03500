"""`penstock run` as a process, with a program in the place of Codex. tests/clients runs the real one."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.cli import UsageError, build_parser, run
from penstock.connect.programs import KEY_VARIABLE, PROGRAMS
from penstock.store import open_archive
from penstock.store.ledger import TurnFilter
from tests.cli.running import COMMAND, Result, environment, penstock
from tests.client.server import answer, in_a_thread
from tests.connect.programs import script
from tests.upstream.local_servers import LocalServer, listed

FAKE = Path(__file__).with_name("fake_codex.py")
KEY = "sk-planted-0123456789"
LIMIT = 30.0


class User:
    """Somebody with an empty home, whose `codex` is the fake one."""

    def __init__(self, home: Path) -> None:
        self.home, self.temporary = home, home / "tmp"
        self.temporary.mkdir()
        self.program = Path(script(home / "bin" / "codex", f'exec "{sys.executable}" "{FAKE}" "$@"'))
        self.variables = {
            "HOME": str(home),
            "TMPDIR": str(self.temporary),
            "PATH": f"{self.program.parent}{os.pathsep}{os.environ['PATH']}",
            "FAKE_CODEX": str(home / "seen.json"),
            "MY_KEY": KEY,
            **dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME", "PENSTOCK_CONFIG", "CODEX_HOME"), ""),
        }

    def run(self, *arguments: str, **changes: str) -> Result:
        return self.penstock("run", *arguments, **changes)

    def penstock(self, *arguments: str, **changes: str) -> Result:
        return penstock(*arguments, stdin=b"", **{**self.variables, **changes})

    @property
    def seen(self) -> dict[str, Any]:
        """What the program saw when it was started."""
        found: dict[str, Any] = json.loads((self.home / "seen.json").read_text())
        return found

    @property
    def was_started(self) -> bool:
        return (self.home / "seen.json").exists()

    @property
    def outcomes(self) -> list[str]:
        with open_archive(self.home / ".local" / "share" / "penstock" / "responses.sqlite") as archive:
            return [each.outcome for each in archive.turns(TurnFilter(), limit=50).turns]

    def left_behind(self) -> list[str]:
        return [path.name for path in self.temporary.iterdir()]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.chdir(tmp_path)
    return User(tmp_path)


@pytest.fixture
def upstream() -> Iterator[str]:
    """The base URL of a server with two models."""
    with in_a_thread(LocalServer(listed("small", "large"))) as server:
        yield f"{server.url}/v1"


# What the client gets


def test_without_upstreams_it_runs_with_the_demo_model(user: User) -> None:
    result = user.run("codex", "--", "ask", "Count from 1 to 3")
    assert (result.returncode, result.stdout) == (0, "1, 2, 3.\n")
    first, second = result.stderr.splitlines()
    assert first.startswith("penstock: Codex CLI uses the built-in model demo through a private gateway at")
    assert second.startswith("penstock: no upstream is configured: add --preset NAME or --upstream URL")
    assert user.outcomes == ["completed"]
    assert user.left_behind() == []
    explained = user.penstock("explain", "--last")
    assert "Model demo was requested by client local" in explained.stdout


def test_the_configuration_file_is_used_and_not_changed(user: User, upstream: str) -> None:
    text = f'passthrough = "mine"\n[targets.mine]\nbase_url = "{upstream}"\nkeys = ["MY_KEY"]\n'
    text += '[[keys]]\nname = "laptop"\nhash = "sha256:' + "0" * 64 + '"\n'
    Path("penstock.toml").write_text(text)
    result = user.run("codex", "--", "ask", "Hello!")
    assert (result.returncode, result.stdout) == (0, "Hello!\n")
    assert f"Codex CLI uses small of mine ({upstream}) through" in result.stderr
    assert "no upstream" not in result.stderr
    assert Path("penstock.toml").read_text() == text
    assert [each["slug"] for each in user.seen["catalog"]["models"]] == ["small", "large", "demo"]
    assert user.seen["environment"]["MY_KEY"] == KEY


def test_a_model_that_is_not_listed_is_in_the_list_of_the_client(user: User, upstream: str) -> None:
    result = user.run("codex", "--upstream", upstream, "--model", "smal", "--", "exit", "0")
    assert "penstock: targets.upstream does not list smal: did you mean small?" in result.stderr
    assert user.seen["config"]["model"] == "smal"
    slugs = [each["slug"] for each in user.seen["catalog"]["models"]]
    assert slugs == ["smal", "small", "large", "demo"]


def test_the_users_own_arguments_come_last_and_unchanged(user: User, upstream: str) -> None:
    given = ["-c", 'model="large"', "--", "-m", "--preset", "exit", "5"]
    result = user.run("codex", "--upstream", upstream, "--", *given)
    assert result.returncode == 5
    assert user.seen["arguments"][-len(given) :] == given
    assert user.seen["config"]["model"] == "large"
    assert user.seen["catalog"]["models"][0]["slug"] == "large"


def test_only_the_client_can_use_the_gateway(user: User) -> None:
    log = user.home / "gateway.log"
    result = user.run("codex", "--log", str(log), "--", "stray")
    assert result.stdout == "401\n"
    seen = user.seen
    key = seen["environment"][KEY_VARIABLE]
    assert len(key) > 40
    assert key not in " ".join(seen["arguments"]) + seen["parent"]
    assert key not in json.dumps(seen["catalog"]) + log.read_text() + result.stderr
    assert '"status": 401' in log.read_text()
    user.run("codex", "--", "exit", "0")
    assert user.seen["environment"][KEY_VARIABLE] != key


def test_the_environment_is_the_users_own(user: User) -> None:
    user.run("codex", "--", "exit", "0", NO_PROXY="corp")
    changed = {KEY_VARIABLE, "PWD", "_", "SHLVL", "LC_CTYPE"}  # shells and Python set the others
    found = {name: value for name, value in user.seen["environment"].items() if name not in changed}
    expected = environment(**user.variables, NO_PROXY="corp")
    assert found == {name: value for name, value in expected.items() if name not in changed}
    user.run("codex", "--", "exit", "0", NO_PROXY="corp", HTTPS_PROXY="http://127.0.0.1:9")
    assert user.seen["environment"]["NO_PROXY"] == "corp,127.0.0.1,localhost"


def test_the_files_of_the_client_are_private_and_removed(user: User) -> None:
    result = user.run("codex", "--", "die", str(int(signal.SIGKILL)))
    assert result.returncode == 128 + signal.SIGKILL
    assert user.seen["mode"] == 0o700
    assert Path(user.seen["folder"]).parent == user.temporary
    assert user.left_behind() == []


# What it says afterwards


def test_failed_turns_are_reported_with_how_to_find_out(user: User) -> None:
    result = user.run("codex", "--", "ask", "fail in the middle")
    assert result.returncode == 0
    last = result.stderr.splitlines()[-1]
    (log,) = user.left_behind()
    assert last == (
        "penstock: 1 turn failed: `penstock explain --last --failed` says why; the gateway's log is "
        f"{user.temporary / log}"
    )
    assert "server_error" in (user.temporary / log).read_text()
    explained = user.penstock("explain", "--last", "--failed")
    assert explained.returncode == 0
    assert "server_error" in explained.stdout


def test_another_store_is_named_and_none_is_not(user: User) -> None:
    store = str(user.home / "my store.sqlite")
    result = user.run("codex", "--store", store, "--", "ask", "fail in the middle")
    assert f"`penstock explain --last --failed --store '{store}'` says why" in result.stderr
    explained = user.penstock("explain", "--last", "--failed", "--store", store)
    assert explained.returncode == 0
    result = user.run("codex", "--store", "none", "--", "ask", "fail in the middle")
    assert "penstock: 1 turn failed: the gateway's log is" in result.stderr


def test_a_model_that_the_client_saved_is_reported(user: User) -> None:
    script(user.program, "mkdir -p ~/.codex", "echo 'model = \"fast\"' > ~/.codex/config.toml")
    result = user.run("codex")
    assert result.stderr.splitlines()[-1] == (
        "penstock: Codex CLI has saved fast as its model in ~/.codex/config.toml, also for runs without "
        "Penstock"
    )
    assert "has saved" not in user.run("codex").stderr


# What prevents a start


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--preset anthropic", "targets.anthropic requires a key: set ANTHROPIC_API_KEY"),
        ("--preset antropic", "did you mean anthropic?"),
        ("--model dmo", 'there is no model called "dmo"; did you mean demo?'),
        ("--upstream http://127.0.0.1:9/v1", "connection refused"),
        ("--dialect chat", "need an upstream"),
        ("--config no.toml", "no.toml: cannot be read"),
        ("--store .", "--store: "),
        ("--log no/such/file", "--log: cannot write no/such/file: No such file"),
    ],
)
def test_it_ends_with_a_sentence_before_the_client_starts(user: User, arguments: str, message: str) -> None:
    result = user.run("codex", *arguments.split(), ANTHROPIC_API_KEY="")
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert not user.was_started
    assert user.left_behind() == []


def test_a_missing_program_is_named_with_its_installation(user: User) -> None:
    result = user.run("codex", PATH=str(user.home))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"penstock: codex is not installed. Install it with: {PROGRAMS['codex'].install}\n"
    )


def test_a_program_that_cannot_be_started_is_reported(user: User) -> None:
    user.program.write_text("#!/no/such/interpreter\n")
    result = user.run("codex")
    assert result.returncode == 2
    assert f"cannot start {user.program}: No such file or directory" in result.stderr
    assert user.left_behind() == []


def test_an_upstream_that_cannot_be_reached_is_a_warning(user: User) -> None:
    result = user.run("codex", "--upstream", "http://127.0.0.1:9/v1", "--model", "m", "--", "exit", "0")
    assert result.returncode == 0
    assert "penstock: targets.upstream cannot be reached: could not connect to 127.0.0.1:9" in result.stderr
    assert user.seen["config"]["model"] == "m"


def test_an_upstream_that_wants_a_key_is_an_error(user: User) -> None:
    with in_a_thread(LocalServer([answer(401, {})])) as server:
        arguments = ("--upstream", f"{server.url}/v1", "--model", "m", "--", "exit", "0")
        assert "requires a key: add --api-key-env NAME" in user.run("codex", *arguments).stderr
        assert not user.was_started
        result = user.run("codex", "--api-key-env", "MY_KEY", *arguments)
    assert "refused the key in MY_KEY" in result.stderr
    assert KEY not in result.stderr
    assert user.was_started


def test_windows_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UsageError, match="`penstock connect codex --write`"):
        run.run(build_parser("run").parse_args(["run", "codex"]))


# Signals and the terminal


@contextmanager
def started(user: User, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command in a session of its own, which has no terminal."""
    process = subprocess.Popen(
        [COMMAND, "run", "codex", "--", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**user.variables),
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextmanager
def on_a_terminal(user: User, *arguments: str) -> Iterator[tuple[int, int]]:
    """Start the command on a terminal of its own; yield its process id and the other side of the terminal."""
    child, terminal = pty.fork()
    if not child:
        os.execve(COMMAND, [COMMAND, "run", "codex", "--", *arguments], environment(**user.variables))
    try:
        yield child, terminal
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.close(terminal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_is_passed_on_and_the_gateway_ends_after_the_client(
    user: User, number: signal.Signals
) -> None:
    with started(user, "wait") as process:
        process.send_signal(number)
        stdout, _ = process.communicate(timeout=LIMIT)
    assert (process.returncode, stdout.decode()) == (7, f"{number.name} 401\n")
    with pytest.raises(ProcessLookupError):
        os.kill(user.seen["pid"], 0)
    assert user.left_behind() == []


def test_the_terminal_is_the_clients_and_so_is_ctrl_c(user: User) -> None:
    with on_a_terminal(user, "wait") as (child, terminal):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        screen = _read_until(terminal, "ready")
        seen = user.seen
        os.write(terminal, b"\x03")
        screen += _read_to_end(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert screen.partition("ready")[2].split() == ["^CSIGINT", "401"]
    assert seen["terminal"] == [True, True, True]
    assert seen["foreground"]
    assert seen["size"] == [77, 33]


def test_the_signal_of_ctrl_c_is_not_passed_on_again(user: User) -> None:
    """The terminal has sent it to the client, which would end at the first signal that it gets."""
    with on_a_terminal(user, "wait") as (child, terminal):
        _read_until(terminal, "ready")
        os.kill(child, signal.SIGINT)
        url = urlsplit(user.seen["config"]["model_providers"]["penstock"]["base_url"])
        gateway = HTTPConnection(url.hostname or "", url.port, timeout=LIMIT)
        for _ in range(2):  # the signal arrived before the requests, so it is handled before the second one
            gateway.request("GET", "/healthz")
            assert gateway.getresponse().read()
        gateway.close()
        os.kill(child, signal.SIGTERM)
        assert _read_to_end(terminal).split() == ["SIGTERM", "401"]
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_modes_of_the_terminal_are_restored_if_the_client_was_killed(user: User) -> None:
    program = "import os, tty; tty.setraw(0); print('raw', flush=True); os.kill(os.getpid(), 9)"
    script(user.program, f'exec "{sys.executable}" -c "{program}"')
    with on_a_terminal(user) as (child, terminal):
        assert "raw" in _read_until(terminal, "raw") + _read_to_end(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGKILL
        assert termios.tcgetattr(terminal)[3] & termios.ICANON


def _read_until(terminal: int, wanted: str) -> str:
    screen = ""
    while wanted not in screen:
        screen += _read(terminal)
    return screen


def _read_to_end(terminal: int) -> str:
    screen = ""
    while True:
        try:
            screen += _read(terminal)
        except OSError:  # the other side is closed
            return screen


def _read(terminal: int) -> str:
    ready, _, _ = select.select([terminal], [], [], LIMIT)
    assert ready, "nothing appeared on the terminal"
    return os.read(terminal, 65536).decode(errors="replace")
