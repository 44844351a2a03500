"""Write a first `penstock.toml` for upstreams that were found, with comments that explain what to change.

The text contains names of environment variables and no secret.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.dialects.presets import PRESETS
from penstock.gateway.config.values import key, quoted
from penstock.gateway.settings import DEMO, Settings
from penstock.upstream.discovery import FoundUpstream

MOST_LOCAL = 20
MOST_OF_A_VENDOR = 4
"""Models that are written into the file. A vendor may list hundreds; the passthrough target has all."""


class StarterModel(Struct, frozen=True):
    """A model under the name that clients use."""

    name: str
    upstream: FoundUpstream
    model: str
    """Its name at the upstream."""


def starter_models(upstreams: Sequence[FoundUpstream]) -> list[StarterModel]:
    """Return the models to offer, those of the first upstream first. If two upstreams have the same name, the
    later one is called `TARGET/MODEL`."""
    found: dict[str, StarterModel] = {}
    for upstream in upstreams:
        for model in upstream.models[: MOST_LOCAL if upstream.is_local else MOST_OF_A_VENDOR]:
            name = f"{upstream.name}/{model}" if model in found else model
            if model != DEMO:  # the name of the built-in model
                found.setdefault(name, StarterModel(name, upstream, model))
    return list(found.values())


def starter_file(
    upstreams: Sequence[FoundUpstream], default: StarterModel | None, *, port: int = Settings().port
) -> str:
    """Return the text of a configuration. `default` is one of these upstreams' models; the demo model is the
    default without one."""
    if default is not None:
        # Its target is the passthrough, so its models need no tables and keep their own names.
        upstreams = [default.upstream, *(each for each in upstreams if each is not default.upstream)]
    models = starter_models(upstreams)
    sections = [
        _HEAD,
        _top(default),
        _server(port),
        *(_target(upstream) for upstream in upstreams),
        *(_model(each) for each in models if default is None or each.upstream is not default.upstream),
        *([] if upstreams else [_EXAMPLE_TARGETS]),
        _fallback(upstreams),
        _EXAMPLES,
    ]
    return "\n\n".join(sections) + "\n"


_HEAD = """\
# The settings of a Penstock gateway, written by `penstock init`.
# docs/configuration.md describes all settings, and `penstock config check` checks
# this file. A running gateway applies changes within about a second. The file
# contains no secrets, only the names of the environment variables that have them.
#
# For completion and checks in editors (Even Better TOML, Taplo), write the schema
# with `penstock config schema > penstock.schema.json`, and begin this file with:
# #:schema ./penstock.schema.json"""


def _top(default: StarterModel | None) -> str:
    name = default.model if default else DEMO
    target = f"passthrough = {quoted(default.upstream.name)}" if default else '# passthrough = "local"'
    return f"""\
# The model of requests that name none.
default_model = {quoted(name)}
# The target that gets every model name that is not in this file, unchanged.
{target}"""


def _server(port: int) -> str:
    usual = Settings().port
    why = "0 picks a free port" if port == usual else f"{usual} was in use when this file was written"
    return f"""\
[server]
host = "127.0.0.1"    # an address that other machines can reach requires [[keys]]
port = {port:<14} # {why}"""


def _target(upstream: FoundUpstream) -> str:
    row = PRESETS[upstream.preset]
    if upstream.key_variable:
        comment = f"# {row.title}. Its key is in the environment variable {upstream.key_variable}."
    else:
        comment = f"# {row.title}, on this machine."
    lines = [comment, f"[targets.{key(upstream.name)}]", f"preset = {quoted(row.name)}"]
    if upstream.base_url != row.base_url:
        lines.append(f"base_url = {quoted(upstream.base_url)}")
    return "\n".join(lines)


def _model(model: StarterModel) -> str:
    lines = [f"[models.{key(model.name)}]", f"target = {quoted(model.upstream.name)}"]
    if model.model != model.name:
        lines.append(f"model = {quoted(model.model)}")
    return "\n".join(lines)


_EXAMPLE_TARGETS = """\
# Only the built-in model `demo` works until there is a target. Two examples:
#
# [targets.local]     # any server with a Chat Completions API
# base_url = "http://127.0.0.1:11434/v1"
#
# [targets.vendor]    # a vendor from docs/presets.md, whose key is in its variable
# preset = "anthropic\""""


def _fallback(upstreams: Sequence[FoundUpstream]) -> str:
    chain = [f"{each.name}/{each.models[0]}" for each in upstreams if each.models][:2]
    chain += ["local/some-model", "vendor/other-model"][: 2 - len(chain)]
    return f"""\
# A fallback chain: if a target fails before its first output, the next is tried.
# [models.best]
# targets = [{", ".join(map(quoted, chain))}]"""


_EXAMPLES = """\
# Other names for models, for clients that insist on one.
# [aliases]
# "gpt-5" = "best"

# [limits]
# max_turns = 20      # concurrent turns; more get a 503
# store_days = 30     # how many days responses are stored

# To share the gateway: `penstock keys create NAME` adds an entry like this one,
# and from then on every client needs a key.
# [[keys]]
# name = "laptop"
# hash = "sha256:..."\
"""
