"""`penstock doctor`: checks everything that a gateway needs, from its configuration to the abilities of its
models.

Start at `examination`, which runs the checks in order. Each check is a row of a table and returns findings
(`findings`): `configuration`, `machine` (port and store), `proxies`, `targets` (keys, reachability, models),
and `probes`, which sends short requests through a gateway in this process (`probe_turns`). `recording` writes
what was found to the configuration.
"""
