"""The store in an SQLite file: `store` for the gateway that has it open, `archive` for operators' tools.

`writer` commits what waits in memory with the SQL in `statements`; `queries` has the SQL for reading.
"""
