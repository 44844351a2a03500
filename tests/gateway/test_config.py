"""`penstock.toml`: what it can say, and what is told when something in it is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from penstock.dialects.plan import Quirks
from penstock.dialects.presets import PRESETS
from penstock.errors import ConfigError
from penstock.gateway.config.file import LIMITS, SERVER, TOP, find_config, load_settings, read_settings
from penstock.gateway.config.keys import KEY
from penstock.gateway.config.models import MODEL
from penstock.gateway.config.targets import TARGET
from penstock.gateway.settings import ClientKey, Limits, ModelRoute, RouteStep, Settings
from tests.effort import examples

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-openai",
    "ANTHROPIC_API_KEY": "sk-ant",
    "OPENROUTER_API_KEY": "sk-or-1",
    "SPARE_KEY": "sk-or-2\n",
    "CUSTOMER_TOKEN": "customer-secret",
    "BROKEN": "two\nlines",
    "EMPTY": " ",
}
LOCAL = '[targets.local]\nbase_url = "http://127.0.0.1:8000/v1"\n'
HASH = "sha256:" + "ab" * 32


def read(text: str, **more: str) -> Settings:
    return read_settings(text, file="penstock.toml", environment={**ENVIRONMENT, **more})


def errors(text: str, **more: str) -> list[str]:
    """All that is wrong, without the name of the file."""
    with pytest.raises(ConfigError) as caught:
        read(text, **more)
    told = str(caught.value)
    for name, secret in ENVIRONMENT.items():
        assert secret.strip() == "" or secret.strip() not in told, name
    assert told == "\n".join(map(str, caught.value.errors))
    return [str(error).removeprefix("penstock.toml:") for error in caught.value.errors]


def read_or_told(text: str) -> tuple[Settings | None, list[ConfigError]]:
    try:
        return read(text), []
    except ConfigError as error:
        return None, error.errors


def example(folder: Path) -> Settings:
    """The example of the documentation, in a folder that has the files it names."""
    authority = trustme.CA()
    certificate = authority.issue_cert("client.example")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "client.pem")
    certificate.private_key_pem.write_to_path(folder / "client.key")
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    file = folder / "penstock.toml"
    file.write_text(found[1])
    return load_settings(file, ENVIRONMENT)


def test_an_empty_file_is_the_default() -> None:
    assert read("") == Settings()


def test_the_example_in_the_documentation_says_what_it_should(tmp_path: Path) -> None:
    settings = example(tmp_path)
    assert settings.default_model == "fast"
    assert settings.passthrough == "router"
    assert settings.allowed_origins == ("https://app.example", "http://localhost:3000")
    assert settings.limits == Limits()
    claude, router, local = settings.targets
    assert (claude.dialect, claude.keys, claude.key_header) == ("anthropic", ("sk-ant",), "x-api-key")
    assert claude.base_url == PRESETS["anthropic"].base_url
    assert router.keys == ("sk-or-1", "sk-or-2")
    assert router.headers == {"X-Title": "Penstock", "X-Customer": "customer-secret"}
    assert router.proxy == ""
    assert router.quirks.reasoning_details
    assert not router.quirks.parallel_tool_calls
    assert router.quirks.effort == PRESETS["openrouter"].quirks.effort
    assert (router.connect_timeout, router.first_byte_timeout, router.idle_timeout) == (10, 600, 600)
    assert (local.dialect, local.keys, local.proxy) == ("chat", (), None)
    assert local.ca_file == str(tmp_path / "ca.pem")
    assert local.client_key == str(tmp_path / "client.key")
    assert settings.models == {
        "fast": ModelRoute(name="fast", steps=(RouteStep("local", "qwen3-32b"),)),
        "best": ModelRoute(
            name="best",
            steps=(RouteStep("claude", "claude-opus-4-7"), RouteStep("router", "anthropic/claude-opus-4.7")),
        ),
    }
    assert settings.aliases == {"gpt-5": "best", "claude-sonnet-4-5": "fast"}
    assert settings.accents == {"my-agent/": "openai"}
    (override,) = settings.overrides
    assert (override.id, override.facts.window, override.facts.image_input) == ("fast", 128_000, False)
    key, operator = settings.keys
    assert (key.name, key.digest.hex()[:8], key.accent) == ("laptop", "9f86d081", "openai")
    assert (key.operator, operator.operator) == (False, True)


def test_the_example_has_every_setting() -> None:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    for name in {*TOP, *SERVER, *LIMITS, *TARGET, *MODEL, *KEY}:
        assert re.search(rf"(?m)^{name} =|^\[+{name}|^\[targets\.\w+\.{name}\]", found[1]), name


def test_every_limit_can_be_set() -> None:
    assert set(LIMITS) == set(Limits.__struct_fields__)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ('body_bytes = "64MB"', "body_bytes", 64_000_000),
        ('body_bytes = "64MiB"', "body_bytes", 64 * 1024 * 1024),
        ('body_bytes = "1.5 kb"', "body_bytes", 1500),
        ('body_bytes = "2GiB"', "body_bytes", 2 * 1024**3),
        ('body_bytes = "512B"', "body_bytes", 512),
        ("body_bytes = 4096", "body_bytes", 4096),
        ("patience = 0", "patience", 0),
        ("patience = 0.5", "patience", 0.5),
        ('patience = "500ms"', "patience", 0.5),
        ('drain = "5m"', "drain", 300),
        ('drain = "1h"', "drain", 3600),
        ('client_timeout = "off"', "client_timeout", None),
        ("client_timeout = 0", "client_timeout", None),
        ("client_timeout = 30", "client_timeout", 30),
        ('max_turns = "off"', "max_turns", 0),
        ("retries = 0", "retries", 0),
    ],
)
def test_limits_are_read_as_people_write_them(line: str, field: str, value: object) -> None:
    assert getattr(read(f"[limits]\n{line}\n").limits, field) == value


WRONG = (Path(__file__).parent / "wrong_configs.txt").read_text().split("\n\n")[1:]
"""A configuration in each, and behind the arrow how what is told of it begins."""


@pytest.mark.parametrize(("text", "told"), [case.rstrip().split("\n=> ") for case in WRONG])
def test_what_is_wrong_is_told_with_line_and_remedy(text: str, told: str) -> None:
    (error,) = errors(text)
    assert error.startswith(told)


@pytest.mark.parametrize("name", ["ca_file", "client_cert"])
def test_a_file_that_is_no_certificate_is_told(name: str) -> None:
    (error,) = errors(f'{LOCAL}{name} = "{PAGE}"')
    assert error.startswith(f"3: targets.local.{name}: cannot be used: ")


def test_a_key_of_a_certificate_needs_the_certificate() -> None:
    (error,) = errors(f'{LOCAL}client_key = "{PAGE}"')
    assert error == "3: targets.local.client_key: also needs client_cert"


def test_everything_that_is_wrong_is_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
default_model = "nothing"
[aliases]
a = "b"
b = "a"
[targets.one]
base_url = "ftp://x"
dialekt = "chat"
keys = ["NOT_SET", "OPENAI_API_KEY", "NOR_THIS"]
[models.m]
targets = ["one", "two"]
"""
    assert [error.partition(" ")[0] for error in errors(text)] == [
        "1:",
        "3:",
        "4:",
        "6:",
        "7:",
        "8:",
        "8:",
        "10:",
    ]
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert (caught.value.line, caught.value.file) == (1, "penstock.toml")


SECRETS = [
    "sk-proj-abcDEF123",
    "sk_live_51Hxyz",
    "gsk_AbCdEfGh1234567890",
    "hf_abcdefghijkl",
    "AIzaSyA1234567890",
    "AKIAIOSFODNN7EXAMPLE",
    "0123456789abcdef0123456789abcdef",
    "deadbeefdeadbeef1234",
    "xai-1234",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "Bearer abc",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("passing", ["", "pass_key = true\n"])
def test_a_key_in_the_file_is_an_error_that_does_not_repeat_it(secret: str, passing: str) -> None:
    (error,) = errors(LOCAL + passing + f'keys = ["{secret}"]')
    assert "put it into a variable" in error
    assert secret not in error


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "my_key", "AWS_BEARER_TOKEN_BEDROCK", "KEY2", "MyToken"])
def test_the_name_of_a_variable_is_told(name: str) -> None:
    with pytest.raises(ConfigError, match=f"variable {name} is not set"):
        read_settings(LOCAL + f'keys = ["{name}"]', file="", environment={})


def test_a_variable_that_is_set_is_one_whatever_it_is_called() -> None:
    (target,) = read(LOCAL + 'keys = ["sk_live_51Hxyz"]', sk_live_51Hxyz="the key").targets
    assert target.keys == ("the key",)


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "Cookie"])
def test_a_secret_header_names_a_variable(header: str) -> None:
    text = LOCAL + f'[targets.local.headers]\n{header} = "Bearer %s"'
    (error,) = errors(text % "planted")
    assert error.startswith(f"4: targets.local.headers.{header}: is a secret")
    assert "planted" not in error
    (target,) = read(text % "${CUSTOMER_TOKEN}").targets
    assert target.headers == {header: "Bearer customer-secret"}


def test_a_secret_anywhere_else_is_not_repeated() -> None:
    secret = "pk_planted-0123456789"
    for line in ("keys = %s", "pass_key = %s", "idle_timeout = %s", "ca_file = %s", "headers = %s"):
        assert secret not in "".join(errors(LOCAL + line % f'"{secret}"'))
    assert secret not in "".join(errors(f'[targets.x]\nbase_url = "{secret}"'))
    assert secret not in "".join(errors(f'[targets.x]\nbase_url = ["{secret}"]'))
    assert secret not in "".join(errors(f'[[keys]]\nname = "a"\nhash = "{secret}"'))
    assert secret not in "".join(errors(f'[limits]\nbody_bytes = "{secret}"'))


def test_a_dollar_can_be_written() -> None:
    (target,) = read(LOCAL + '[targets.local.headers]\nprice = "5$$ and $CUSTOMER_TOKEN"').targets
    assert target.headers == {"price": "5$ and customer-secret"}


def test_a_password_of_a_proxy_comes_from_the_environment() -> None:
    (target,) = read(LOCAL + 'proxy = "http://me:$CUSTOMER_TOKEN@proxy:3128"').targets
    assert target.proxy == "http://me:customer-secret@proxy:3128"
    assert "customer-secret" not in repr(target)


def test_the_key_of_a_preset_is_taken_where_it_is_set() -> None:
    text = '[targets.a]\npreset = "openai"\n'
    assert read(text).targets[0].keys == ("sk-openai",)
    assert read(text, OPENAI_API_KEY=" ").targets[0].keys == ()
    assert read(text + "keys = []").targets[0].keys == ()


@pytest.mark.parametrize("url", ["https://elsewhere.example/v1", "https://api.openai.com.evil.example/v1"])
def test_the_key_of_a_preset_goes_to_no_other_address_by_an_oversight(url: str) -> None:
    text = f'[targets.a]\npreset = "openai"\nbase_url = "{url}"\n'
    (error,) = errors(text)
    assert error.startswith("3: targets.a.base_url: is not OpenAI's own address")
    assert read(text + 'keys = ["OPENAI_API_KEY"]').targets[0].keys == ("sk-openai",)
    assert read(text + "keys = []").targets[0].keys == ()
    assert read(text + "pass_key = true").targets[0].keys == ()
    assert read(text, OPENAI_API_KEY="").targets[0].keys == ()


@pytest.mark.parametrize("url", ["https://api.openai.com/v1/", "http://127.0.0.1:9000/v1"])
def test_the_key_of_a_preset_goes_to_its_vendor_and_to_this_machine(url: str) -> None:
    assert read(f'[targets.a]\npreset = "openai"\nbase_url = "{url}"').targets[0].keys == ("sk-openai",)


def test_an_address_of_ones_own_takes_the_key_of_its_preset() -> None:
    text = '[targets.a]\npreset = "azure"\nbase_url = "https://me.openai.azure.com/openai/v1"'
    (target,) = read(text, AZURE_OPENAI_API_KEY="azure-key").targets
    assert (target.keys, target.key_header, target.dialect) == (("azure-key",), "api-key", "responses")


def test_a_target_that_passes_keys_may_have_none_set() -> None:
    (target,) = read(LOCAL + 'pass_key = true\nkeys = ["NOT_SET", "SPARE_KEY"]').targets
    assert (target.pass_key, target.keys) == (True, ("sk-or-2",))


@pytest.mark.parametrize(
    ("dialect", "header"),
    [("chat", "bearer"), ("responses", "bearer"), ("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")],
)
def test_a_key_is_sent_as_the_dialect_is_used_to(dialect: str, header: str) -> None:
    assert read(LOCAL + f'dialect = "{dialect}"').targets[0].key_header == header
    assert read(LOCAL + f'dialect = "{dialect}"\nkey_header = "bearer"').targets[0].key_header == "bearer"


def test_every_quirk_can_be_set() -> None:
    flipped: dict[str, Any] = {
        name: not value if isinstance(value, bool) else "template" if name == "effort" else "field"
        for name, value in ((name, getattr(Quirks(), name)) for name in Quirks.__struct_fields__)
    }
    lines = "\n".join(
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {str(value).lower()}"
        for name, value in flipped.items()
    )
    assert read(f"{LOCAL}[targets.local.quirks]\n{lines}").targets[0].quirks == Quirks(**flipped)


def test_no_time_limit_is_zero_or_off() -> None:
    (target,) = read(LOCAL + 'connect_timeout = 0\nfirst_byte_timeout = "off"\nidle_timeout = "90s"').targets
    assert (target.connect_timeout, target.first_byte_timeout, target.idle_timeout) == (None, None, 90)


def test_the_models_own_name_is_for_steps_that_name_none() -> None:
    text = LOCAL + '[targets.b]\npreset = "ollama"\n[models.m]\nmodel = "up"\ntargets = ["local", "b/x/y:z"]'
    assert read(text).models["m"].steps == (RouteStep("local", "up"), RouteStep("b", "x/y:z"))


def test_a_model_without_a_target_goes_where_all_others_go() -> None:
    text = f'passthrough = "local"\n{LOCAL}[models.m]\nlimits = "window:8k"'
    assert read(text).models["m"].steps == (RouteStep("local"),)


def test_an_alias_leads_to_the_end_of_its_way() -> None:
    text = LOCAL + '[models.m]\ntarget = "local"\n[aliases]\na = "b"\nb = "m"\n"*" = "a"\nd = "demo"'
    assert read(text).aliases == {"a": "m", "b": "m", "*": "m", "d": "demo"}


def test_with_a_passthrough_an_alias_may_lead_anywhere() -> None:
    text = f'passthrough = "local"\ndefault_model = "any/thing"\n{LOCAL}[aliases]\na = "some/model"'
    settings = read(text)
    assert settings.aliases == {"a": "some/model"}
    assert settings.default_model == "any/thing"


@given(st.dictionaries(st.sampled_from("abcdefg"), st.sampled_from("abcdefg"), max_size=7))
@effort(max_examples=examples(200))
def test_aliases_never_lead_in_circles(aliases: dict[str, str]) -> None:
    text = f'{LOCAL}[models.g]\ntarget = "local"\n[aliases]\n'
    text += "".join(f'{name} = "{target}"\n' for name, target in aliases.items() if name != "g")
    settings, told = read_or_told(text)
    assert settings is None or set(settings.aliases.values()) <= {"g"}
    assert all("refers to itself" in each.message or "no model" in each.message for each in told)


def test_a_client_key_shows_no_digest() -> None:
    (key,) = read(f'[[keys]]\nname = "a"\nhash = "{HASH.upper().replace("SHA", "sha")}"').keys
    assert key == ClientKey(name="a", digest=b"\xab" * 32)


def test_an_operator_is_marked_as_one() -> None:
    entry = f'[[keys]]\nname = "a"\nhash = "{HASH}"\noperator = '
    assert [read(entry + said).keys[0].operator for said in ("true", "false")] == [True, False]
    _, told = read_or_told(entry + '"yes"')
    assert "true or false" in told[0].message


def test_the_beginning_of_an_agent_is_kept_in_small_letters() -> None:
    assert read('[accents]\n"My-Agent/" = "copilot"').accents == {"my-agent/": "copilot"}


def test_hosts_are_kept_in_their_plain_form() -> None:
    settings = read('[server]\nhost = "[::1]"\nallowed_hosts = ["Gateway.Example.", "[0:0::1]", "::2"]')
    assert settings.host == "::1"
    assert settings.allowed_hosts == ("gateway.example", "::1", "::2")


def test_the_file_is_found_here_or_among_the_users_settings(tmp_path: Path) -> None:
    here, config, home = tmp_path / "here", tmp_path / "config", tmp_path / "home"
    environment = {"XDG_CONFIG_HOME": str(config), "HOME": str(home)}
    here.mkdir()
    assert find_config(here, environment) is None
    for folder, setting in ((home / ".config", {"HOME": str(home)}), (config, environment)):
        (folder / "penstock").mkdir(parents=True)
        (folder / "penstock" / "penstock.toml").touch()
        assert find_config(here, setting) == folder / "penstock" / "penstock.toml"
    assert (
        find_config(here, {"XDG_CONFIG_HOME": "relative", "HOME": str(home)})
        == home / ".config/penstock/penstock.toml"
    )
    (here / "penstock.toml").touch()
    assert find_config(here, environment) == here / "penstock.toml"
    assert find_config(here, {}) == here / "penstock.toml"


def test_a_file_that_cannot_be_read_is_told_without_a_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"toml: cannot be read: No such file") as caught:
        load_settings(tmp_path / "penstock.toml", {})
    assert caught.value.line == 0
    (tmp_path / "penstock.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_settings(tmp_path / "penstock.toml", {})
    (tmp_path / "penstock.toml").write_bytes(b"\xef\xbb\xbf[server]\r\nport = 1\r\n")
    assert load_settings(tmp_path / "penstock.toml", {}).port == 1


VALUES = st.recursive(
    st.none().map(lambda _: "demo")
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text("a$/*{} :", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from([*TARGET, *MODEL, "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list():
            return f"[{', '.join(map(written, value))}]"
        case dict():
            pairs = [f"{name} = {written(each)}" for name, each in value.items()]
            return "{" + ", ".join(pairs) + "}"
        case _:
            return str(value)


@given(
    st.dictionaries(
        st.sampled_from(TOP),
        VALUES | st.dictionaries(st.sampled_from([*SERVER, *LIMITS, *TARGET, "x"]), VALUES, max_size=3),
        max_size=4,
    )
)
@effort(max_examples=examples(400))
def test_whatever_is_written_is_read_or_told(document: dict[str, object]) -> None:
    text = "".join(f"{name} = {written(value)}\n" for name, value in document.items())
    settings, told = read_or_told(text)
    assert settings is not None or told
    assert all(1 <= each.line <= len(document) for each in told)


def test_what_came_from_a_variable_is_known_as_a_secret() -> None:
    text = '[targets.a]\nbase_url = "http://127.0.0.1:1"\nproxy = "http://me:$PASS@127.0.0.1:2"\n'
    text += 'headers.x-tenant = "$TENANT"\nheaders.x-route = "to ${ROUTE}, $$5"\nheaders.x-title = "a word"\n'
    environment = {"TENANT": "tenant-1", "ROUTE": "route-1", "PASS": "word-of-pass", "OTHER": "other-one"}
    (target,) = read_settings(text, file="penstock.toml", environment=environment).targets
    assert target.headers["x-route"] == "to route-1, $5"
    assert set(target.secrets) == {"tenant-1", "route-1", "word-of-pass"}
    assert "tenant-1" not in repr(target)
