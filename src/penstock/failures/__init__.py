"""Classification of errors by HTTP status, headers and body, for upstreams, client and adapter.

Vendors agree neither on shapes nor on codes, and report one failure as another: a context overflow arrives
as 400, 413 or 500 (ask E4), an exhausted quota as 429. So the evidence is checked in a fixed order, the most
specific first: an unambiguous code, the message text, an unambiguous status, the general error type, any
status. The tables in `codes.py` are in that order. `overflow.py` reads the token counts of an overflow.
"""

from penstock.failures.classification import NO_MESSAGE, Failure, classify, explain, is_web_page, title_of
from penstock.failures.codes import ERROR_TYPES, STATUSES

__all__ = [
    "ERROR_TYPES",
    "NO_MESSAGE",
    "STATUSES",
    "Failure",
    "classify",
    "explain",
    "is_web_page",
    "title_of",
]
