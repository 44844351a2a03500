"""The table of dialects."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.dialects.registry import DIALECTS, RENDERED, dialect, rendered_dialect


@pytest.mark.parametrize("name", DIALECTS)
def test_a_name_gives_its_dialect(name: str) -> None:
    found = dialect(name)
    assert found.name == name
    for method in ("reader", "read_body", "classify"):
        assert callable(getattr(found, method))


def test_the_rendered_dialects_are_those_that_render() -> None:
    assert {name for name in DIALECTS if hasattr(dialect(name), "render")} == RENDERED
    for name in RENDERED:
        assert rendered_dialect(name) is dialect(name)


def test_a_read_only_dialect_cannot_be_rendered() -> None:
    with pytest.raises(LookupError, match='no dialect to render called "ollama"; available: anthropic, chat'):
        rendered_dialect("ollama")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("anthropi", "did you mean anthropic?"),
        ("Chat", "did you mean chat?"),
        ("zzzz", "available: ai_sdk, "),
    ],
)
def test_the_error_for_an_unknown_name_lists_similar_names(name: str, advice: str) -> None:
    with pytest.raises(LookupError, match=name) as caught:
        dialect(name)
    assert advice in str(caught.value)


@pytest.mark.parametrize("name", DIALECTS)
def test_importing_a_dialect_imports_no_other(name: str) -> None:
    script = (
        "import sys\n"
        "from penstock.dialects.registry import DIALECTS, dialect\n"
        f"dialect({name!r})\n"
        "loaded = {each for each in DIALECTS if 'penstock.dialects.' + each in sys.modules}\n"
        f"sys.exit(' '.join(loaded - {{{name!r}}}) or None)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
