"""`penstock keys`: entries are added and removed, and nothing else in the file changes."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.gateway.config.file import load_settings
from penstock.gateway.config.key_edits import names_of, with_key, without_key
from penstock.gateway.http.access import KEY, authenticate, create_key
from tests.cli.running import Result, penstock, start
from tests.effort import examples

KEPT = b"""\
# my gateway
[server]
port = 9000   # not the usual one

[targets.local]
base_url = 'http://127.0.0.1:8000/v1'
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder, without settings elsewhere."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keys(*arguments: str, folder: Path) -> Result:
    return penstock("keys", *arguments, HOME=str(folder / "home"), XDG_CONFIG_HOME="")


def names(folder: Path, *arguments: str) -> list[str]:
    """Return the names in the table of `penstock keys list`."""
    return [line.split()[0] for line in keys("list", *arguments, folder=folder).stdout.splitlines()[1:]]


def test_a_new_key_is_shown_once_and_gives_access(folder: Path) -> None:
    result = keys("create", "laptop", folder=folder)
    assert result.returncode == 0
    key = result.stdout.removesuffix("\n")
    assert KEY.fullmatch(key)
    assert "added laptop to penstock.toml" in result.stderr
    assert key not in result.stderr
    file = folder / "penstock.toml"
    assert key not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = authenticate(load_settings(file, {}), {"x-api-key": key})
    assert found is not None
    assert found.name == "laptop"


def test_the_file_that_the_environment_names_is_changed_listed_and_checked(folder: Path) -> None:
    file = folder / "elsewhere.toml"
    (folder / "penstock.toml").write_text("[server]\nport = 9000\n")
    assert penstock("keys", "create", "laptop", PENSTOCK_CONFIG=str(file)).returncode == 0
    assert 'name = "laptop"' in file.read_text()
    listed = penstock("keys", "list", "--json", PENSTOCK_CONFIG=str(file)).stdout
    assert [each["name"] for each in json.loads(listed)] == ["laptop"]
    checked = penstock("config", "check", PENSTOCK_CONFIG=str(file))
    assert f"{file} is valid" in checked.stderr
    assert penstock("keys", "list", "--config", "penstock.toml", PENSTOCK_CONFIG=str(file)).returncode == 1


def test_the_rest_of_the_file_and_its_mode_stay(folder: Path) -> None:
    file = folder / "penstock.toml"
    file.write_bytes(KEPT)
    file.chmod(0o640)
    for name in ("one", "two", "three"):
        assert keys("create", name, folder=folder).returncode == 0
    assert file.read_bytes().startswith(KEPT)
    assert names(folder) == ["one", "two", "three"]
    assert keys("remove", "two", folder=folder).returncode == 0
    assert names(folder) == ["one", "three"]
    assert keys("remove", "one", folder=folder).returncode == 0
    assert keys("remove", "three", folder=folder).returncode == 0
    assert file.read_bytes() == KEPT
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(folder) == ["penstock.toml"]


def test_a_link_stays_a_link(folder: Path) -> None:
    (folder / "real.toml").write_bytes(KEPT)
    (folder / "penstock.toml").symlink_to("real.toml")
    keys("create", "one", folder=folder)
    assert keys("remove", "one", folder=folder).returncode == 0
    assert (folder / "penstock.toml").is_symlink()
    assert (folder / "real.toml").read_bytes() == KEPT


def test_a_name_is_given_once(folder: Path) -> None:
    keys("create", "laptop", folder=folder)
    before = (folder / "penstock.toml").read_bytes()
    result = keys("create", "laptop", folder=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert (
        result.stderr
        == 'penstock: penstock.toml:1: there is already a key called "laptop": choose another name\n'
    )
    assert (folder / "penstock.toml").read_bytes() == before


def test_commands_at_the_same_time_do_not_undo_each_other(folder: Path) -> None:
    before = ("revoked1", "revoked2", "rotated1", "rotated2")
    (folder / "penstock.toml").write_text("\n".join(create_key(name)[1] for name in before))
    old = {
        each["name"]: each["hash"] for each in tomllib.loads((folder / "penstock.toml").read_text())["keys"]
    }
    commands = [
        *(("create", f"new{number}") for number in range(6)),
        *(("create", "twice") for _ in range(4)),
        *((("revoke" if name.startswith("revoked") else "rotate"), name) for name in before),
    ]
    started = [start("keys", *command, HOME=str(folder), XDG_CONFIG_HOME="") for command in commands]
    ended = [(command[1], process.wait(60)) for command, process in zip(commands, started, strict=True)]
    for process in started:
        process.communicate()
    assert sorted(code for name, code in ended if name == "twice") == [0, 2, 2, 2]
    assert {code for name, code in ended if name != "twice"} == {0}
    found = {
        each["name"]: each["hash"] for each in tomllib.loads((folder / "penstock.toml").read_text())["keys"]
    }
    assert sorted(found) == [*(f"new{number}" for number in range(6)), "rotated1", "rotated2", "twice"]
    assert all(found[name] != old[name] for name in ("rotated1", "rotated2"))


def test_an_admins_key_is_marked_in_the_file(folder: Path) -> None:
    assert keys("create", "laptop", folder=folder).returncode == 0
    assert keys("create", "prometheus", "--admin", folder=folder).returncode == 0
    entries = tomllib.loads((folder / "penstock.toml").read_text())["keys"]
    assert [entry.get("admin") for entry in entries] == [None, True]


def test_print_writes_no_file(folder: Path) -> None:
    result = keys("create", "ci", "--print", folder=folder)
    assert result.returncode == 0
    assert KEY.fullmatch(result.stdout.strip())
    assert '[[keys]]\nname = "ci"\nhash = "sha256:' in result.stderr
    assert os.listdir(folder) == []


def test_the_file_is_the_one_that_serve_reads(folder: Path) -> None:
    users = folder / "home" / ".config" / "penstock" / "penstock.toml"
    users.parent.mkdir(parents=True)
    users.write_bytes(KEPT)
    keys("create", "one", folder=folder)
    assert names_of(users.read_bytes(), "") == ["one"]
    assert not (folder / "penstock.toml").exists()
    keys("create", "two", "--config", "other.toml", folder=folder)
    assert names(folder, "--config", "other.toml") == ["two"]
    assert names(folder) == ["one"]


def test_a_key_that_is_not_there_cannot_be_removed(folder: Path) -> None:
    keys("create", "laptop", folder=folder)
    result = keys("remove", "desktop", folder=folder)
    assert (result.returncode, result.stdout) == (1, "")
    assert "no key called desktop" in result.stderr


def test_a_file_without_keys_is_reported(folder: Path) -> None:
    (folder / "penstock.toml").write_bytes(KEPT)
    result = keys("list", folder=folder)
    assert (result.returncode, result.stdout) == (1, "")
    assert "has no keys" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list"], "no penstock.toml in this folder"),
        (["remove", "x"], "no penstock.toml in this folder"),
        (["list", "--config", "nowhere.toml"], "nowhere.toml: cannot be read: No such file"),
        (["create"], "needs a NAME"),
        (["list", "x"], "takes no NAME"),
        (["remove", "x", "--print"], "--print works only with penstock keys create"),
        (["remove", "x", "--operator"], "--admin works only with penstock keys create"),
        (["create", " "], "NAME must not be empty"),
        (["create", "two\nlines"], "NAME must be a name of at most 64 characters"),
        (["create", "x" * 65], "NAME must be a name of at most 64 characters"),
        (
            ["create", "x", "--config", "no/such/folder.toml"],
            "cannot write no/such/folder.toml: No such file",
        ),
        (["create", "x", "--config", "."], "cannot read .: Is a directory"),
    ],
)
def test_wrong_usage_is_refused(folder: Path, arguments: list[str], message: str) -> None:
    result = keys(*arguments, folder=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert os.listdir(folder) == []


def test_a_file_that_is_not_toml_is_not_changed(folder: Path) -> None:
    (folder / "penstock.toml").write_bytes(b"[server\n")
    for arguments in (["create", "x"], ["list"], ["remove", "x"]):
        result = keys(*arguments, folder=folder)
        assert (result.returncode, result.stdout) == (2, "")
        assert "penstock.toml:1: this is not valid TOML" in result.stderr
    assert (folder / "penstock.toml").read_bytes() == b"[server\n"


INLINE = b"""\
keys = [{ name = "a", hash = "1" }, { name = "b", hash = "2" }]
[server]
port = 1
"""


def test_keys_in_another_layout_are_not_changed(folder: Path) -> None:
    (folder / "penstock.toml").write_bytes(INLINE)
    result = keys("remove", "b", folder=folder)
    assert result.returncode == 2
    assert 'penstock.toml:1: "b" cannot be removed safely: delete line 1 yourself' in result.stderr
    result = keys("create", "c", folder=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert (
        "penstock.toml:1: cannot add a key to this list: write each of its keys as [[keys]]" in result.stderr
    )
    assert (folder / "penstock.toml").read_bytes() == INLINE


ENTRY_BELOW = b'[[keys]]\nname = "a"\n[keys.more]\nx = 1\n[[keys]]\nname = "b"\n'


def test_an_entry_with_a_table_below_it_is_not_changed() -> None:
    with pytest.raises(ConfigError, match="lines 1 to 2"):
        without_key(ENTRY_BELOW, "a", "penstock.toml")
    assert without_key(ENTRY_BELOW, "b", "") == b'[[keys]]\nname = "a"\n[keys.more]\nx = 1\n'


def test_only_the_entry_is_removed() -> None:
    entry = b'[[keys]]  # Ann\nname = "a"\n# inside\nhash = """\n[[keys]]\n"""\n'
    above, below = b"# above\n", b"# below\n\n[server]\nport = 1"
    assert without_key(above + entry + below, "a", "") == above + below


def test_the_line_ends_of_the_file_are_preserved() -> None:
    _, entry = create_key("a")
    changed = with_key(b"[server]\r\nport = 1", "a", entry, "")
    assert changed.count(b"\r\n") == changed.count(b"\n") == 6
    assert without_key(changed, "a", "") == b"[server]\r\nport = 1\r\n"
    marked = with_key(b"\xef\xbb\xbf", "a", entry, "")
    assert names_of(marked, "") == ["a"]


LINES = st.sampled_from(
    [
        *(
            "",
            "  ",
            "# [[keys]]",
            "[server]",
            'x = """\n[[keys]]\nname = "k0"\n"""',
            "y = [\n1, # ]\n]",
            "z = 1",
        ),
        *('[[keys]]\nname = "own"', "[[others]]", "[[others.keys]]", 'a."b.c" = {d = 1}', "t = '''\n\n'''"),
    ]
)


@given(
    st.lists(LINES, max_size=8, unique=True),
    st.booleans(),
    st.lists(st.text(min_size=1, max_size=8).filter(str.isprintable), min_size=1, max_size=3, unique=True),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.filter_too_much])
def test_what_was_added_can_be_removed_in_any_order_and_nothing_is_left(
    lines: list[str], ends: bool, names: list[str], random: Random
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ends else b"")
    try:
        tomllib.loads(data.decode())
    except tomllib.TOMLDecodeError:
        return
    names = [f"n{name}" for name in names]
    changed = data
    for name in names:
        changed = with_key(changed, name, create_key(name)[1], "")
    assert changed.startswith(data)
    assert names_of(changed, "")[-len(names) :] == names
    random.shuffle(names)
    for name in names:
        changed = without_key(changed, name, "")
    assert changed == (data if not data or data.endswith(b"\n") else data + b"\n")
