"""The tables, as numbered steps. A step that was released is never changed: a new one is added behind it.

The file says in `user_version` how many steps it has seen, and in `application_id` that it is ours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from penstock.errors import StoreError

APPLICATION = 0x50454E53
"""`PENS`: tells our files from those of others."""

STEPS: Sequence[str] = (
    # 1. Blobs stand last in their rows: what is before them is read without them.
    """
    CREATE TABLE responses (
        number INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        ended_at REAL,
        status TEXT NOT NULL,
        previous_id TEXT,
        conversation_id TEXT,
        is_background INTEGER NOT NULL,
        dropped INTEGER NOT NULL DEFAULT 0,
        request BLOB NOT NULL,
        response BLOB NOT NULL,
        verdict BLOB NOT NULL DEFAULT x''
    );
    CREATE UNIQUE INDEX responses_by_id ON responses (tenant, id);
    CREATE INDEX responses_by_end ON responses (ended_at);
    CREATE INDEX responses_by_previous ON responses (tenant, previous_id);

    CREATE TABLE items (
        number INTEGER PRIMARY KEY,
        response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
        is_output INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        data BLOB NOT NULL
    );
    CREATE INDEX items_by_response ON items (response, is_output);
    CREATE INDEX items_by_id ON items (tenant, id);

    CREATE TABLE events (
        number INTEGER PRIMARY KEY,
        response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
        last INTEGER NOT NULL,
        count INTEGER NOT NULL,
        data BLOB NOT NULL
    );
    CREATE INDEX events_by_response ON events (response, last, count);

    CREATE TABLE traces (
        number INTEGER PRIMARY KEY,
        response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
        data BLOB NOT NULL
    );
    CREATE INDEX traces_by_response ON traces (response);

    CREATE TABLE memories (
        number INTEGER PRIMARY KEY,
        response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
        tenant TEXT NOT NULL,
        key TEXT NOT NULL,
        data BLOB NOT NULL
    );
    CREATE UNIQUE INDEX memories_by_key ON memories (tenant, key);
    CREATE INDEX memories_by_response ON memories (response);

    CREATE TABLE conversations (
        number INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        changed_at REAL NOT NULL,
        metadata BLOB NOT NULL
    );
    CREATE UNIQUE INDEX conversations_by_id ON conversations (tenant, id);
    CREATE INDEX conversations_by_change ON conversations (changed_at);

    CREATE TABLE conversation_items (
        number INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        data BLOB NOT NULL
    );
    CREATE INDEX conversation_items_in_order ON conversation_items (conversation, number, id);
    CREATE INDEX conversation_items_by_id ON conversation_items (tenant, id);
    """,
    # 2. One row: the time from which ages are measured (`store.sqlite.pruning`).
    """
    CREATE TABLE store_time (seconds REAL NOT NULL);
    """,
)


def check(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> int:
    """How many steps the file has seen. Refuses what is not ours, or too new, before anything is changed."""
    version = _version(connection)
    if version > len(steps):
        raise StoreError(
            StoreError.NEWER_VERSION,
            f"the file was written by a newer Penstock (format {version}, this one knows {len(steps)}): "
            "use that version, or give another file",
        )
    return version


def migrate(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> None:
    """Take the steps that the file has not seen, each wholly or not at all."""
    version = check(connection, steps)
    for number, step in enumerate(steps[version:], version + 1):
        stamp = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {number}"
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {step}; {stamp}; COMMIT;")
        except sqlite3.Error:
            connection.rollback()
            raise


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    is_empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if application != APPLICATION and not is_empty:
        raise StoreError(
            StoreError.NOT_A_STORE, "the file is a database of another program: give another file"
        )
    return version
