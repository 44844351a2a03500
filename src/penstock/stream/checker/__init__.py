"""The stream checker: checks incrementally whether a stream is lawful, independently of the state machine.

`checker.py` is the entry point: events in, violations out. `rules.py` is the table of rules. The other files
each check one thing: `items`, `content` (parts, text, arguments), `snapshot`, `names`, `shapes`.
"""

from penstock.stream.checker.checker import StreamChecker
from penstock.stream.checker.rules import RULES, Rule, Violation

__all__ = ["RULES", "Rule", "StreamChecker", "Violation"]
