"""`penstock.toml`: from the text of a file to `Settings`, or to everything that is wrong with it, by line.

Start at `file`. `targets` and `models` read the two large parts, `values` single values, `secrets` what must
not stand in the file; `toml_lines` knows on which line a setting is; `keys` changes the file. `options` lays
what was given on the command line over it.
"""
