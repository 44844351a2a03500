"""A vendor is one row of the presets: no other module names one.

The rule covers code that could treat a vendor specially: identifiers, and strings that are a word, a key, a
pattern or a URL. Comments, docstrings and sentences (help texts, messages, explanations) may name vendors as
examples. A sentence is a string with a space in it that is not split into words.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pytest
from msgspec import Struct

import penstock
from penstock.dialects.presets.rows import VENDORS

SOURCE = Path(penstock.__file__).parent
TABLE = "dialects/presets/*.py"

WORDS = frozenset(
    {
        *VENDORS,
        *(prefix for row in VENDORS.values() for prefix in row.model_prefixes),
        *(urlsplit(row.base_url).netloc for row in VENDORS.values() if row.key_variable),
        *(row.key_variable.lower() for row in VENDORS.values() if row.key_variable),
    }
)
"""Names of vendors, their other names, their hosts, the variables of their keys."""


class Exemption(Struct, frozen=True):
    """Words that are allowed in some files, because they name something else there."""

    why: str
    words: frozenset[str]
    files: tuple[str, ...]


def exempt(why: str, words: str, *files: str) -> Exemption:
    return Exemption(why, frozenset(words.split()), files)


FAMILIES = "families of models, to look up what a model needs or costs"
WIRE = "a field or a type on the wire, as its vendor named it"

EXEMPTIONS = (
    # Dialects
    exempt("the dialect", "anthropic", "dialects/anthropic/*.py"),
    exempt("the dialect", "bedrock", "dialects/bedrock/*.py"),
    exempt("the dialect", "cohere", "dialects/cohere/*.py"),
    exempt("the dialect and its models", "gemini", "dialects/gemini/*.py"),
    exempt("the dialect", "ollama", "dialects/ollama/*.py"),
    exempt("the table of dialects", "anthropic bedrock cohere gemini ollama", "dialects/registry.py"),
    exempt(
        "the formats of all dialects", "anthropic bedrock cohere gemini ollama", "dialects/recognition.py"
    ),
    exempt("the fields of all dialects", "anthropic gemini", "dialects/request_fields.py"),
    exempt("the effort table of the dialect", "gemini", "gateway/config/targets.py"),
    # Fields and types
    exempt(WIRE, "copilot google groq", "dialects/chat/*.py"),
    exempt(WIRE, "amazon bedrock", "dialects/anthropic/reader.py", "dialects/bedrock/reader.py"),
    exempt(WIRE, "anthropic google", "dialects/ai_sdk/*.py"),
    exempt(WIRE, "google", "dialects/gemini/*.py"),
    exempt(WIRE, "xai", "dialects/responses/reader.py"),
    exempt(
        "names of accents, and the prefix of item types outside the specification",
        "copilot openai",
        *("stream/accents.py", "stream/permissions.py", "stream/checker/*.py", "parts/*.py"),
        "dialects/responses/*.py",
        *("cli/check.py", "cli/translate.py", "gateway/http/client_accent.py"),
    ),
    exempt("GitHub Actions", "github", *("cli/check.py", "cli/report.py", "cli/ci_reports.py")),
    exempt("the User-Agents of clients", "azure github", "gateway/http/client_accent.py"),
    exempt(
        "the clients that `penstock connect` knows, and their files",
        "openai",
        *("cli/connect.py", "connect/guides.py", "connect/llm_models.py"),
    ),
    # Models
    exempt(FAMILIES, "deepseek gemini minimax mistral qwen", "dialects/model_families.py"),
    exempt(FAMILIES, "deepseek gemini mistral openai qwen", "tokens/*.py"),
    exempt("names of models", "deepseek gemini mistral", "models/catalog.py"),
)


def strings_and_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every identifier and every string of a module that the rule covers, with its line."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    split = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "split"
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Constant(value=str() | bytes() as value) if id(node) not in skipped:
                text = value if isinstance(value, str) else value.decode("latin-1")
                if " " not in text.strip() or id(node) in split:
                    yield line, text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield line, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield line, name
            case ast.keyword(arg=str() as name) | ast.ImportFrom(module=str() as name):
                yield line, name


class Finding(Struct, frozen=True):
    """A place that names a vendor."""

    file: str
    line: int
    word: str
    text: str


def findings(source: str, file: str = "gateway/any.py") -> list[Finding]:
    words = [word for word in WORDS if word in source.lower()]
    if not words:
        return []
    return [
        Finding(file, line, word, text)
        for line, text in strings_and_names(ast.parse(source))
        for word in words
        if word in text.lower()
    ]


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    """Every place outside the presets that names a vendor."""
    files = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return [
        finding
        for name, path in files.items()
        if not PurePosixPath(name).match(TABLE)
        for finding in findings(path.read_text("utf-8"), name)
    ]


def covers(exemption: Exemption, finding: Finding) -> bool:
    is_file = any(PurePosixPath(finding.file).match(pattern) for pattern in exemption.files)
    return is_file and finding.word in exemption.words


def test_only_the_presets_name_a_vendor(found: list[Finding]) -> None:
    wrong = [each for each in found if not any(covers(exemption, each) for exemption in EXEMPTIONS)]
    assert not wrong, "make it a column of `Preset`, and look it up with `vendor_facts` or in `PRESETS`"


@pytest.mark.parametrize("exemption", EXEMPTIONS, ids=lambda each: f"{each.why}: {each.files[0]}")
def test_an_exemption_that_is_not_needed_is_removed(exemption: Exemption, found: list[Finding]) -> None:
    covered = [each for each in found if covers(exemption, each)]
    assert {each.word for each in covered} == exemption.words
    for pattern in exemption.files:
        assert any(PurePosixPath(each.file).match(pattern) for each in covered), pattern


@pytest.mark.parametrize(
    "source",
    [
        'if vendor == "groq":\n    pass',
        'SLOW = frozenset({"mistral", "none"})',
        'SLOW = "mistral none".split()',
        'TABLE = {"Groq": 1}',
        'match vendor:\n    case "groq":\n        pass',
        "def ask_groq() -> None: ...",
        "class GroqReader: ...",
        "is_groq = True",
        "call(groq=1)",
        "from penstock.dialects import anthropic",
        'URL = "https://api.x.ai/v1"',
        'KEY = "DASHSCOPE_API_KEY"',
        'name = f"vllm/{model}"',
        'mark = b"x_groq"',
    ],
)
def test_code_that_names_a_vendor_is_found(source: str) -> None:
    assert findings(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""Groq sends it twice."""',
        'def f() -> None:\n    """As Groq does it."""',
        "limit = 1  # Groq refuses more",
        'FIELD = 1\n"""Vendors such as Groq take it."""',
        'raise ValueError("name a vendor, such as groq")',
    ],
)
def test_prose_about_a_vendor_is_not_code(source: str) -> None:
    assert not findings(source)
