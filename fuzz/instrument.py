"""Measure which code an execution reaches: modules of `penstock` are instrumented when they are imported.

Every branch of the source gets a call that appends its number to `HITS`. That is several times faster than a
trace function, works the same in every version of Python, and counts the work of an execution exactly, so
that an input that takes too long is found without a clock.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

HITS: list[int] = []
"""The branches of the current execution, in order."""

NAME = "__hit__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.ExceptHandler, ast.match_case)
_LONGEST_WORD = 60


class Instrumenter(ast.NodeTransformer):
    """Adds a call to every function, branch, loop and handler, and to parts of conditional expressions."""

    def __init__(self, first: int) -> None:
        self.next = first

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node, _FUNCTIONS):
            at = int(ast.get_docstring(node, clean=False) is not None)
            node.body.insert(at, self._statement(node.body[-1]))
        elif isinstance(node, _BRANCHES):
            self._add_to_bodies(node)
        elif isinstance(node, ast.Lambda):
            node.body = self._expression(node.body)
        elif isinstance(node, ast.IfExp):
            node.body, node.orelse = self._expression(node.body), self._expression(node.orelse)
        elif isinstance(node, ast.BoolOp):
            node.values[1:] = [self._expression(each) for each in node.values[1:]]
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            node.elt = self._expression(node.elt)
        elif isinstance(node, ast.DictComp):
            node.value = self._expression(node.value)
        return node

    def _add_to_bodies(self, node: ast.AST) -> None:
        for name in ("body", "orelse"):
            body: list[ast.stmt] | None = getattr(node, name, None)
            # A condition that is false is a branch as well.
            if body or (body is not None and isinstance(node, ast.If)):
                body.insert(0, self._statement(body[0] if body else node))

    def _call(self, near: ast.AST) -> ast.Call:
        self.next += 1
        call = ast.Call(ast.Name(NAME, ast.Load()), [ast.Constant(self.next - 1)], [])
        return ast.fix_missing_locations(ast.copy_location(call, near))

    def _statement(self, near: ast.AST) -> ast.stmt:
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(self._call(near)), near))

    def _expression(self, value: ast.expr) -> ast.expr:
        """`append` returns None, so `hit or value` is the value."""
        both = ast.BoolOp(ast.Or(), [self._call(value), value])
        return ast.copy_location(both, value)


class _Loader(SourceFileLoader):
    """Compiles the instrumented source. Compiled files of the usual kind are neither used nor written."""

    def __init__(self, name: str, path: str, coverage: Coverage) -> None:
        super().__init__(name, path)
        self._coverage = coverage

    def get_code(self, fullname: str) -> CodeType:
        return self._coverage.compile(fullname, self.get_data(self.path), self.path)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, NAME, HITS.append)
        super().exec_module(module)


class Coverage(MetaPathFinder):
    """Instruments a package from `install` on, and remembers the words in its modules."""

    def __init__(self, package: str = "penstock") -> None:
        self._package = package
        self.branches = 0
        self._words: dict[str, list[str]] = {}

    def install(self) -> None:
        loaded = [name for name in sys.modules if name.split(".")[0] == self._package]
        if loaded:
            raise RuntimeError(f"{loaded[0]} was imported before it could be instrumented")
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.split(".")[0] != self._package:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = _Loader(fullname, spec.origin, self)
        return spec

    def compile(self, name: str, source: bytes, path: str) -> CodeType:
        tree = ast.parse(source)
        self._words[name] = sorted(_words(tree))
        instrumenter = Instrumenter(self.branches)
        instrumenter.visit(tree)
        self.branches = instrumenter.next
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return code

    def words(self, prefixes: Sequence[str]) -> list[str]:
        """Return the strings and field names in the imported modules with these prefixes: what code compares
        its input with. Mutations insert them."""
        found = {
            word
            for name, words in self._words.items()
            if any(f"{name}.".startswith(f"{self._package}.{prefix}.") for prefix in prefixes)
            for word in words
        }
        return sorted(found)


def _words(tree: ast.Module) -> set[str]:
    """Return the names of declared fields, and the strings that are not prose."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            value = node.value
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            if isinstance(text, str) and 0 < len(text) <= _LONGEST_WORD and text.count(" ") < 2:
                found.add(text)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found
