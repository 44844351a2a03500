"""`extra-openai-models.yaml` of the `llm` program: the gateway's models, and how they are merged into it.

Our entries are between two comments, so that they can be replaced without a YAML parser.
"""

from __future__ import annotations

import json
import re

from penstock.connect.gateway import ConnectedGateway
from penstock.connect.own_checks import OwnCheck
from penstock.errors import ConfigError

KEY_NAME = "penstock"
"""The name under which `llm keys set` stores the key."""
CHECK = OwnCheck(
    program="llm",
    arguments=("models", "list"),
    folder_variable="LLM_USER_PATH",
    file="extra-openai-models.yaml",
    is_slow=True,
)
BEGIN, END = "# penstock connect llm: begin", "# penstock connect llm: end"

_BLOCK = re.compile(rf"^{BEGIN}\n.*?^{END}\n", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^- |^ |^#|^\s*$|^---\s*$")
"""A line of a list of entries, as `llm` documents the file."""
_MODEL_ID = re.compile(r"""^(?:- |  )model_id:\s*["']?([^"'#\n]+?)["']?\s*(?:#.*)?$""", re.MULTILINE)


def llm_settings(gateway: ConnectedGateway) -> str:
    """Return the entries: the chosen model, then the others that the gateway lists."""
    known = {each.id: each for each in gateway.models}
    lines = []
    for name in dict.fromkeys([gateway.model, *known]):
        info = known.get(name)
        lines += [
            f"- model_id: {json.dumps(name)}",
            f"  model_name: {json.dumps(name)}",
            f"  api_base: {json.dumps(gateway.base_url)}",
            *([f"  api_key_name: {KEY_NAME}"] if gateway.key_variable else []),
            "  responses: true",
            *(["  reasoning: true"] if info is not None and info.reasoning else []),
            "  supports_tools: true",
            "  supports_schema: true",
        ]
    return "\n".join([BEGIN, *lines, END, ""])


def with_llm_models(data: bytes, gateway: ConnectedGateway, file: str) -> bytes:
    """Return a user's file with our entries at its end, or in place of our old ones; raise `ConfigError` if
    the file has another form, or another entry with the name of a model."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigError(file, 0, "is not UTF-8 text: save it as UTF-8") from None
    ours = llm_settings(gateway)
    rest = _BLOCK.sub("", text)
    for number, line in enumerate(rest.splitlines(), 1):
        if not _ENTRY.match(line):
            message = (
                "is not a plain list of models: add the entries that `penstock connect llm` prints yourself"
            )
            raise ConfigError(file, number, message)
    if taken := set(_MODEL_ID.findall(rest)) & {gateway.model, *gateway.listed}:
        names = ", ".join(sorted(taken))
        raise ConfigError(file, 0, f"already has entries for {names}: remove or rename them first")
    if _BLOCK.search(text):
        return _BLOCK.sub(lambda _: ours, text, count=1).encode()
    return (text + ("" if not text or text.endswith("\n") else "\n") + ours).encode()
