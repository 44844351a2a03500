"""The store in PostgreSQL, which any number of workers share.

`store` is the backend, `writer` commits what waits in memory with the SQL in `statements`, `queries` has the
SQL for reading, `workers` knows who runs which turn, `bus` carries messages between workers, and `archive` is
for operators' tools. Every table is in the schema `penstock` (`schema`), and every key and index of it
contains the tenant.
"""
