"""Checks of the architecture beyond the import rules, which `make lint` checks."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "penstock"
PAGE = ROOT / "docs" / "architecture.md"

SOURCE_TESTS = ROOT / "tests"

WITHOUT_LOGIC = {"__init__", "__main__", "version"}
SMALL = 40
"""Lines. A smaller module belongs in its neighbour, unless it is listed here with a reason."""
ALLOWED_SMALL = {
    "dialects/anthropic/common_chunks.py": "one module per dialect that has such types",
    "dialects/responses/common_chunks.py": "one module per dialect that has such types",
    "formatting.py": "used by the command line and by explain",
    "gateway/api/models.py": "one module per resource",
    "gateway/api/status.py": "one module per resource",
    "gateway/turn/stop_reasons.py": "the list of reasons, imported wherever a turn is stopped",
    "inspector/session.py": "one module per resource",
    "likely_secrets.py": "used by parts and by the editor host",
    "provider/wording.py": "used by the command line and by the editor host",
    "store/interrupted.py": "turns recovered responses into records of the store",
    "tools/families.py": "the table of tool families",
}

LARGE = 80
"""Lines. A module of this size needs a test file of its name, unless it is listed here with a reason."""
DECLARATIONS = {
    "dialects/plan.py": "types and protocols",
    "dialects/presets/preset.py": "the columns of a table",
    "net/server/channels.py": "protocols",
    "store/backend.py": "protocols",
    "store/ledger.py": "types",
}

NOT_PRIVATE = {
    "_exit": "public, in os",
    "_replace": "public, in named tuples",
}


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    """Return every module by its dotted name, except `penstock` itself, which imports everything lazily."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        if name != "penstock":
            found[name] = ast.parse(path.read_text())
    return found


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports, also inside functions and for type checking."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)
            yield node.module


def test_there_are_no_import_cycles(modules: dict[str, ast.Module]) -> None:
    graph = {}
    for name, tree in modules.items():
        found = {each for each in imports(tree) if each in modules}
        # `from package import module` needs only the module.
        graph[name] = {each for each in found if not any(other.startswith(f"{each}.") for other in found)}
        graph[name].discard(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_class_names_are_unique(modules: dict[str, ast.Module]) -> None:
    places = defaultdict(list)
    for name, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_object_reads_the_private_attributes_of_another(modules: dict[str, ast.Module]) -> None:
    """Tables of a class's own methods, below the class, are allowed."""
    found = []
    for name, tree in modules.items():
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


def test_modules_are_not_tiny() -> None:
    small = []
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE))
        if (
            path.stem not in WITHOUT_LOGIC
            and len(path.read_text().splitlines()) < SMALL
            and name not in ALLOWED_SMALL
        ):
            small.append(name)
    assert small == []


def test_every_module_with_logic_has_a_test_file_of_its_name() -> None:
    missing = []
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE)
        test_file = SOURCE_TESTS / name.parent / f"test_{name.name}"
        is_large = path.stem not in WITHOUT_LOGIC and len(path.read_text().splitlines()) >= LARGE
        if is_large and str(name) not in DECLARATIONS and not test_file.exists():
            missing.append(str(name))
    assert missing == []


def test_no_exemption_is_stale() -> None:
    assert [name for name in {**ALLOWED_SMALL, **DECLARATIONS} if not (SOURCE / name).exists()] == []


def test_no_test_file_imports_another() -> None:
    found: list[str] = []
    for path in SOURCE_TESTS.rglob("test_*.py"):
        lines = re.findall(r"^from tests\..*$", path.read_text(), re.MULTILINE)
        found += [
            f"{path.name}: {line}" for line in lines if re.search(r"\.test_\w+ import|import test_", line)
        ]
    assert found == []


# docs/architecture.md


def layout() -> list[str]:
    """Return the packages in the page's layout, from the top."""
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
    assert there - WITHOUT_LOGIC == set(layout())


def test_a_token_passes_at_most_12_files_that_exist() -> None:
    walk = PAGE.read_text().partition("## A token, step by step")[2].partition("\n## ")[0]
    files = set(re.findall(r"^\d+\. `([\w/]+\.py)`", walk, re.MULTILINE))
    assert 6 <= len(files) <= 12
    assert [file for file in files if not (SOURCE / file).is_file()] == []


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:[\w.]+/)+[\w.]*)`", PAGE.read_text()))
    assert len(named) > 40
    missing = [name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()]
    assert missing == []
