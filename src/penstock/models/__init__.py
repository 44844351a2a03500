"""Which models an endpoint has, and what is known of each: limits, capabilities, prices, and who says so.

`directory.py` is the surface. `listing.py` reads what an endpoint lists, `probes.py` what a server on the own
machine has loaded, `overrides.py` what a person wrote, `catalog.py` is what we know ourselves; `enrich.py`
puts them in order. `identity.py` reads names. Only `directory.py` and the end of `probes.py` wait for
anything; the rest is pure.
"""
