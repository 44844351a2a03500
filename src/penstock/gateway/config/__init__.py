"""`penstock.toml`: from the text of a file to `Settings`, or to all of its errors with their lines.

Start at `file`. `targets` and `models` read the two large sections, `values` single values, `secrets` the
values that must not be in the file; `toml_lines` finds the line of a setting; `keys` edits the file.
`options` applies the command-line options and environment variables, which override the file. `starter`
writes a first file.
"""
