"""The store in an SQLite file: `store` for the gateway that has it open, `archive` for an operator's tools.

`writer` commits what waits in memory, `statements` has what it executes; `queries` has what is read.
"""
