"""What the architecture promises, as far as a program can check it; `make lint` checks the import rules."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "penstock"
PAGE = ROOT / "docs" / "architecture.md"

DOORS = {"__init__", "__main__", "version"}
SMALL = 40
"""Lines. A module below that belongs to its neighbour, unless it is listed here with a reason."""
ALLOWED_SMALL = {
    "dialects/frames.py": "where every reader turns foreign data into deltas of an error",
    "formatting.py": "reached by both the command line and explain",
    "gateway/api/models.py": "one module per resource",
    "gateway/api/status.py": "one module per resource",
    "gateway/turn/stop_reasons.py": "the list of reasons, which everybody who stops a turn imports",
    "store/interrupted.py": "where the store turns recovered responses into records",
    "tools/families.py": "the table that a new family of tools is added to",
}

NOT_PRIVATE = {
    "_exit": "public, in os",
    "_replace": "public, of named tuples",
    "_retry_connection": "aiohttp sends requests again by itself, and has no public switch for it",
}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its dotted name, without `penstock` itself: it imports everything, lazily."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        if name != "penstock":
            found[name] = ast.parse(path.read_text())
    return found


def imports(tree: ast.Module) -> Iterator[str]:
    """What a module imports, also where it does so in a function or for the types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)
            yield node.module


def test_there_are_no_import_cycles() -> None:
    known = modules()
    graph = {}
    for name, tree in known.items():
        found = {each for each in imports(tree) if each in known}
        # `from package import module` needs the module; the package comes along.
        graph[name] = {each for each in found if not any(other.startswith(f"{each}.") for other in found)}
        graph[name].discard(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_class_has_a_name_of_its_own() -> None:
    places = defaultdict(list)
    for name, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_nobody_reads_the_private_parts_of_another_object() -> None:
    """Tables of a class's own methods, below it, are fine."""
    found = []
    for name, tree in modules().items():
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)} | {"self", "cls"}
        for node in ast.walk(tree):
            if (
                not isinstance(node, ast.Attribute)
                or not re.match("_[a-z]", node.attr)
                or node.attr in NOT_PRIVATE
            ):
                continue
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            if not isinstance(owner, ast.Name) or owner.id not in own | {"super"}:
                found.append(f"{name}:{node.lineno} {ast.unparse(node)}")
    assert found == []


def test_a_module_is_worth_its_file() -> None:
    small = []
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE))
        if (
            path.stem not in DOORS
            and len(path.read_text().splitlines()) < SMALL
            and name not in ALLOWED_SMALL
        ):
            small.append(name)
    assert small == []


# The page


def layout() -> list[str]:
    """The packages of the page's drawing, from the top."""
    drawing = PAGE.read_text().partition("```text\nsrc/penstock/\n")[2].partition("```")[0]
    return [found[1] for found in re.finditer(r"^  ([a-z]\w*)(?:\.py|/) ", drawing, re.MULTILINE)]


def test_the_layout_shows_every_package_in_the_order_of_the_layers() -> None:
    rules = (ROOT / "pyproject.toml").read_text()
    layers = re.findall(
        r'^    "(penstock\..*)",$', rules.partition("layers = [")[2].partition("]")[0], re.MULTILINE
    )
    order = [set(re.findall(r"penstock\.(\w+)", layer)) for layer in reversed(layers)]
    drawn = layout()
    for layer in order:
        assert set(drawn[: len(layer)]) == layer
        del drawn[: len(layer)]
    assert drawn == []
    there = {
        path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there - DOORS == set(layout())


def test_the_walk_of_a_token_touches_at_most_12_files_that_exist() -> None:
    walk = PAGE.read_text().partition("## The walk of one token")[2].partition("\n## ")[0]
    files = set(re.findall(r"^\d+\. `([\w/]+\.py)`", walk, re.MULTILINE))
    assert 6 <= len(files) <= 12
    assert [file for file in files if not (SOURCE / file).is_file()] == []


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:[\w.]+/)+[\w.]*)`", PAGE.read_text()))
    assert len(named) > 40
    missing = [name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()]
    assert missing == []
