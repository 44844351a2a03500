"""Is this stream lawful? An incremental judge that knows nothing of the machine behind our own streams.

`checker.py` is the door: events in, violations out. `rules.py` is the table of rules. The other files each
hold the rules of one thing: `items`, `content` (parts, text, arguments), `snapshot`, `names`, `shapes`.
"""

from penstock.stream.checker.checker import StreamChecker
from penstock.stream.checker.rules import RULES, Rule, Violation

__all__ = ["RULES", "Rule", "StreamChecker", "Violation"]
