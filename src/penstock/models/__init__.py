"""Which models an endpoint has, and what is known about each: limits, capabilities, prices, and the sources.

`directory.py` is the public interface. `listing.py` reads an endpoint's list of models, `probes.py` asks a
local server what it has loaded, `overrides.py` parses the user's overrides, and `catalog.py` is a built-in
table; `learned_limits.py` stores what errors have taught; `enrich.py` merges these sources. `identity.py`
parses model names. Only `directory.py`, `learned_limits.py` and the end of `probes.py` do I/O; the rest is
pure.
"""
