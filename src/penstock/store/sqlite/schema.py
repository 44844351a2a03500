"""The tables, as numbered migration steps. A released step never changes: a new step is added after it.

The file's `user_version` is the number of applied steps; its `application_id` marks it as our own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from penstock.errors import StoreError
from penstock.store.latencies import BOUNDS, DURATIONS

APPLICATION = 0x50454E53
"""`PENS`: distinguishes our files from those of other programs."""

STEPS: Sequence[str] = (
    # 1. Blobs are the last columns: the columns before them can be read without them.
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
    # 3. The accent that a turn was made for; '' in the rows of earlier versions.
    """
    ALTER TABLE responses ADD COLUMN accent TEXT NOT NULL DEFAULT '';
    """,
    # 4. The latest events of running turns, one row for each commit (`store.sqlite.recent`).
    """
    CREATE TABLE recent (number INTEGER PRIMARY KEY, data BLOB NOT NULL);
    """,
    # 5. The ledger (`store.sqlite.ledger`): a row per turn, sums per hour, and what budgets count per day.
    """
    CREATE TABLE turns (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        started_at REAL NOT NULL,
        ended_at REAL,
        is_stored INTEGER NOT NULL,
        user_agent TEXT NOT NULL,
        cost REAL,
        reserved_tokens INTEGER NOT NULL,
        reserved_cost REAL NOT NULL,
        request_id TEXT NOT NULL,
        model TEXT NOT NULL,
        target TEXT NOT NULL,
        upstream_model TEXT NOT NULL,
        upstream_id TEXT NOT NULL,
        upstream_status INTEGER NOT NULL,
        accent TEXT NOT NULL,
        stream INTEGER NOT NULL,
        outcome TEXT NOT NULL,
        closer TEXT NOT NULL,
        code TEXT NOT NULL,
        status INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        last_event TEXT NOT NULL,
        last_sequence INTEGER NOT NULL,
        terminal_sent INTEGER NOT NULL,
        duration_ms INTEGER NOT NULL,
        first_output_ms INTEGER NOT NULL,
        overhead_ms REAL NOT NULL,
        idle_ms INTEGER NOT NULL,
        bytes_in INTEGER NOT NULL,
        bytes_out INTEGER NOT NULL,
        heartbeats INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        reasoning_tokens INTEGER NOT NULL,
        usage_estimated INTEGER NOT NULL,
        diagnostics TEXT NOT NULL,
        search TEXT NOT NULL
    );
    CREATE INDEX turns_by_start ON turns (started_at, id, tenant, model, target, outcome, search);
    CREATE INDEX turns_by_tenant ON turns (tenant, started_at, id);
    CREATE INDEX turns_by_request ON turns (request_id);
    CREATE INDEX turns_unfinished ON turns (tenant, started_at, id) WHERE ended_at IS NULL;

    CREATE TABLE turn_hours (
        hour INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        model TEXT NOT NULL,
        target TEXT NOT NULL,
        outcome TEXT NOT NULL,
        turns INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        reasoning_tokens INTEGER NOT NULL,
        cost REAL NOT NULL,
        unpriced INTEGER NOT NULL,
        estimated INTEGER NOT NULL,
        duration_ms INTEGER NOT NULL,
        PRIMARY KEY (hour, tenant, model, target, outcome)
    ) WITHOUT ROWID;

    CREATE TABLE turn_days (
        hour INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        model TEXT NOT NULL,
        target TEXT NOT NULL,
        outcome TEXT NOT NULL,
        turns INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        reasoning_tokens INTEGER NOT NULL,
        cost REAL NOT NULL,
        unpriced INTEGER NOT NULL,
        estimated INTEGER NOT NULL,
        duration_ms INTEGER NOT NULL,
        PRIMARY KEY (hour, tenant, model, target, outcome)
    ) WITHOUT ROWID;

    CREATE TABLE tenant_days (
        tenant TEXT NOT NULL,
        day INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        cost REAL NOT NULL,
        PRIMARY KEY (tenant, day)
    ) WITHOUT ROWID;
    """,
    # 6. Several processes that share the file (`store.sqlite.workers`).
    """
    CREATE TABLE workers (id TEXT PRIMARY KEY, lease_until REAL NOT NULL) WITHOUT ROWID;

    CREATE TABLE running (
        response INTEGER PRIMARY KEY REFERENCES responses (number) ON DELETE CASCADE,
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        conversation_id TEXT,
        worker TEXT NOT NULL,
        token TEXT NOT NULL,
        is_started INTEGER NOT NULL,
        is_cancelled INTEGER NOT NULL DEFAULT 0
    );
    CREATE UNIQUE INDEX running_by_id ON running (tenant, id);
    CREATE UNIQUE INDEX running_by_token ON running (token);
    CREATE INDEX running_by_worker ON running (worker);
    CREATE INDEX running_by_conversation ON running (tenant, conversation_id);

    CREATE TABLE held_keys (
        tenant TEXT NOT NULL,
        key TEXT NOT NULL,
        worker TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (tenant, key)
    ) WITHOUT ROWID;

    ALTER TABLE turns ADD COLUMN worker TEXT NOT NULL DEFAULT '';
    """,
    # 7. Keys stay held after the death of their worker, until this time.
    """
    ALTER TABLE held_keys ADD COLUMN until REAL NOT NULL DEFAULT 0;
    CREATE INDEX held_keys_by_time ON held_keys (until, tenant);
    """,
    # 8. Pages of threads (`store.sqlite.threads`).
    """
    CREATE INDEX responses_continuing ON responses (tenant, created_at, id) WHERE previous_id IS NOT NULL;
    CREATE INDEX responses_by_conversation ON responses (tenant, conversation_id, number)
        WHERE conversation_id IS NOT NULL;
    CREATE INDEX conversations_by_tenant ON conversations (tenant, changed_at, id);
    """,
    # 9. How long turns took, and why they failed, per hour and day (`store.latencies`).
    f"""
    ALTER TABLE turn_hours ADD COLUMN latencies TEXT NOT NULL DEFAULT '';
    ALTER TABLE turn_days ADD COLUMN latencies TEXT NOT NULL DEFAULT '';

    CREATE TABLE turn_causes (
        hour INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        model TEXT NOT NULL,
        target TEXT NOT NULL,
        outcome TEXT NOT NULL,
        code TEXT NOT NULL,
        turns INTEGER NOT NULL,
        PRIMARY KEY (hour, tenant, model, target, outcome, code)
    ) WITHOUT ROWID;
    INSERT INTO turn_causes
    SELECT CAST(started_at AS INTEGER) / 3600, tenant, model, target, outcome, code, count(*) FROM turns
    WHERE ended_at IS NOT NULL AND outcome IN ('failed', 'refused') GROUP BY 1, 2, 3, 4, 5, 6;

    CREATE TEMP TABLE bounds (low INTEGER PRIMARY KEY, bucket INTEGER NOT NULL);
    INSERT INTO bounds VALUES {", ".join(f"({low}, {bucket})" for bucket, low in enumerate(BOUNDS))};
    CREATE TEMP TABLE marks (
        hour INTEGER, tenant TEXT, model TEXT, target TEXT, outcome TEXT, number INTEGER
    );
    INSERT INTO marks
    SELECT
        CAST(started_at AS INTEGER) / 3600, tenant, model, target, outcome,
        (SELECT bucket FROM bounds WHERE low <= first_output_ms ORDER BY low DESC LIMIT 1)
    FROM turns WHERE ended_at IS NOT NULL AND first_output_ms >= 0;
    INSERT INTO marks
    SELECT
        CAST(started_at AS INTEGER) / 3600, tenant, model, target, outcome, {DURATIONS} + (
            SELECT bucket FROM bounds WHERE low <= max(duration_ms, 0) ORDER BY low DESC LIMIT 1
        )
    FROM turns WHERE ended_at IS NOT NULL;
    CREATE TEMP TABLE texts (
        hour INTEGER, tenant TEXT, model TEXT, target TEXT, outcome TEXT, latencies TEXT NOT NULL,
        PRIMARY KEY (hour, tenant, model, target, outcome)
    ) WITHOUT ROWID;
    INSERT INTO texts
    SELECT
        hour, tenant, model, target, outcome,
        group_concat(char(65 + number / 26, 97 + number % 26) || turns, '')
    FROM (
        SELECT hour, tenant, model, target, outcome, number, count(*) AS turns FROM marks
        GROUP BY 1, 2, 3, 4, 5, 6
    ) GROUP BY 1, 2, 3, 4, 5;
    UPDATE turn_hours SET latencies = ifnull((
        SELECT texts.latencies FROM texts
        WHERE texts.hour = turn_hours.hour AND texts.tenant = turn_hours.tenant
        AND texts.model = turn_hours.model AND texts.target = turn_hours.target
        AND texts.outcome = turn_hours.outcome
    ), '');
    DELETE FROM texts;
    INSERT INTO texts
    SELECT hour / 24 * 24, tenant, model, target, outcome, group_concat(latencies, '') FROM turn_hours
    GROUP BY 1, 2, 3, 4, 5;
    UPDATE turn_days SET latencies = ifnull((
        SELECT texts.latencies FROM texts
        WHERE texts.hour = turn_days.hour AND texts.tenant = turn_days.tenant
        AND texts.model = turn_days.model AND texts.target = turn_days.target
        AND texts.outcome = turn_days.outcome
    ), '');
    DROP TABLE temp.texts;
    DROP TABLE temp.marks;
    DROP TABLE temp.bounds;
    """,
)


def check(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> int:
    """Return the number of steps applied to the file. Raise, before anything changes, if it is another
    program's or too new."""
    version = _version(connection)
    if version > len(steps):
        raise StoreError(
            StoreError.NEWER_VERSION,
            f"a newer Penstock wrote this file (format {version}, this version supports {len(steps)}); "
            "use the newer version, or use another file (--store PATH)",
        )
    return version


def migrate(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> None:
    """Apply the missing steps, each in a transaction of its own."""
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
            StoreError.NOT_A_STORE,
            "the file is a database of another program; use another file (--store PATH)",
        )
    return version
