"""Configurations for tests: wrong ones with their errors, and random ones."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from penstock.gateway.config.file import LIMITS, SERVER, TOP
from penstock.gateway.config.models import MODEL
from penstock.gateway.config.targets import TARGET

_CASES = (Path(__file__).parent / "wrong_configs.txt").read_text().split("\n\n")[1:]
WRONG = [tuple(case.rstrip().split("\n=> ")) for case in _CASES]
"""Configurations with one error each, and the beginning of its message."""

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


DOCUMENTS = st.dictionaries(
    st.sampled_from(TOP),
    VALUES | st.dictionaries(st.sampled_from([*SERVER, *LIMITS, *TARGET, "x"]), VALUES, max_size=3),
    max_size=4,
)


def written_document(document: dict[str, object]) -> str:
    return "".join(f"{name} = {written(value)}\n" for name, value in document.items())
