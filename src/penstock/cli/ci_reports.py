"""Report what `penstock check` finds, in the formats that continuous integration reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from penstock.captures.stream_check import LocatedViolation
from penstock.cli.check_results import CheckedSource, Reporter, summary

_TITLE = "penstock check"


class GitHubReporter(Reporter):
    """Workflow commands of GitHub Actions, which become annotations of the files. Every line is a command,
    so that no text of a stream can be one."""

    def found(self, source: CheckedSource, violation: LocatedViolation) -> None:
        breaks = f" (breaks: {violation.breaks})" if violation.breaks else ""
        message = f"{violation.where}: {violation.message}{breaks}"
        self._annotation("error", source, violation.rule, message, violation.line)

    def note(self, source: CheckedSource, text: str) -> None:
        self._annotation("warning", source, _TITLE, text)

    def checked(self, source: CheckedSource) -> None:
        if source.problem:
            self._annotation("error", source, "not checked", source.problem)

    def finish(self, sources: Sequence[CheckedSource]) -> None:
        self._command("notice", {"title": _TITLE}, summary(sources))

    def _annotation(self, level: str, source: CheckedSource, title: str, message: str, line: int = 0) -> None:
        properties = {"file": _in_workspace(source.name)} if source.is_file else {}
        if line:
            properties["line"] = str(line)
        if not source.is_file:
            message = f"{source.name}: {message}"
        self._command(level, {**properties, "title": title}, message)

    def _command(self, command: str, properties: dict[str, str], message: str) -> None:
        clean = self.terminal.clean
        shown = ",".join(f"{name}={_escaped_property(clean(value))}" for name, value in properties.items())
        self.terminal.line(f"::{command} {shown}::{_escaped_data(clean(message))}")


class JUnitReporter(Reporter):
    """One XML document with a test case for each source, as Jenkins and GitLab read it.

    Jenkins shows only the first `failure` of a test case, so that one lists all violations. The document is
    ASCII: it is valid in whatever encoding the output is.
    """

    def finish(self, sources: Sequence[CheckedSource]) -> None:
        counts = {
            "name": _TITLE,
            "tests": str(len(sources)),
            "failures": str(sum(1 for each in sources if each.violations and not each.problem)),
            "errors": str(sum(1 for each in sources if each.problem)),
            "time": _seconds(sum(each.seconds for each in sources)),
        }
        root = Xml.Element("testsuites", counts)
        suite = Xml.SubElement(root, "testsuite", {**counts, "skipped": "0"})
        for source in sources:
            self._add_case(suite, source)
        Xml.indent(root)
        self.terminal.line(Xml.tostring(root, encoding="us-ascii", xml_declaration=True).decode())

    def _add_case(self, suite: Xml.Element, source: CheckedSource) -> None:
        """Add a test case. Cleaned text has no control characters, which XML cannot contain."""
        clean, found = self.terminal.clean, source.violations
        name = clean(source.name)
        attributes = {"classname": "penstock.check", "name": name, "time": _seconds(source.seconds)}
        if source.is_file:
            attributes["file"] = name
        case = Xml.SubElement(suite, "testcase", attributes)
        lines = [clean(_line(each)) for each in found]
        if source.problem:
            problem = clean(source.problem)
            _add_result(case, "error", "not checked", problem, [problem, *lines])
        elif found:
            others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            _add_result(case, "failure", found[0].rule, clean(_short(found[0])) + others, lines)


def _add_result(case: Xml.Element, tag: str, type: str, message: str, lines: list[str]) -> None:
    Xml.SubElement(case, tag, {"type": type, "message": message}).text = "\n".join(lines)


def _line(violation: LocatedViolation) -> str:
    line = f"line {violation.line}: " if violation.line else ""
    breaks = f" (breaks: {violation.breaks})" if violation.breaks else ""
    return f"{line}{_short(violation)}{breaks}"


def _short(violation: LocatedViolation) -> str:
    return f"{violation.rule}  {violation.where}: {violation.message}"


def _in_workspace(name: str) -> str:
    """Return a file's path from the root of the repository, which is how GitHub reads relative paths."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    if not workspace:
        return name
    path, root = os.path.abspath(name), os.path.abspath(workspace)
    inside = os.path.relpath(path, root) if path.startswith(root + os.sep) else name
    return inside.replace(os.sep, "/")


def _escaped_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped_data(text).replace(":", "%3A").replace(",", "%2C")


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
