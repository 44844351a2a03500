"""What an error status, header or body means: one classification, for upstreams, client and adapter.

Vendors agree neither on shapes nor on codes, and hide one failure behind another: an overflow arrives as 400,
413 or 500 (ask E4), a spent quota as 429. So the evidence is searched in a fixed order, the most exact
first: a code that means one thing, the text, a status that means one thing, the general type, any status. The
tables of `codes.py` are in that order.
"""

from penstock.failures.classification import Failure, classify, explain
from penstock.failures.codes import ERROR_TYPES, STATUSES

__all__ = ["ERROR_TYPES", "STATUSES", "Failure", "classify", "explain"]
