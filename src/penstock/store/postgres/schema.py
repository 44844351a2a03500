"""The tables, as numbered migration steps. A released step never changes: a new step is added after it.

Old and new workers run side by side while a new version is rolled out. So a step only adds what old workers
can ignore; what they must not ignore raises the contract, and a worker refuses a database with a contract
that it does not know. What is not used any more is removed by a step of a later release.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.errors import StoreError
from penstock.store.latencies import BOUNDS, DURATIONS
from penstock.store.postgres.address import DatabaseAddress
from penstock.store.postgres.connections import DatabaseConnection, connect, transaction
from penstock.store.postgres.failures import failure_of


class Step(Struct, frozen=True):
    contract: int
    """The contract that a worker must know to use the tables after this step."""
    summary: str
    sql: str


_BOUNDS = f"ARRAY[{', '.join(map(str, BOUNDS))}]::bigint[]"

STEPS: Sequence[Step] = (
    Step(
        1,
        "create the tables",
        """
        CREATE TABLE penstock.responses (
            number bigint GENERATED ALWAYS AS IDENTITY,
            tenant text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            created_at bigint NOT NULL,
            ended_at double precision,
            day date NOT NULL,
            status text COLLATE "C" NOT NULL,
            previous_id text COLLATE "C",
            conversation_id text COLLATE "C",
            is_background boolean NOT NULL,
            accent text COLLATE "C" NOT NULL,
            token text COLLATE "C" NOT NULL,
            dropped bigint NOT NULL DEFAULT 0,
            size bigint NOT NULL DEFAULT 0,
            request bytea NOT NULL,
            response bytea NOT NULL,
            verdict bytea NOT NULL DEFAULT '',
            PRIMARY KEY (tenant, id)
        );
        COMMENT ON COLUMN penstock.responses.day IS 'the day of UTC whose partition of segments has its log';
        COMMENT ON COLUMN penstock.responses.token IS 'the claim token under which its row was last written';
        COMMENT ON COLUMN penstock.responses.size IS 'about how many bytes it takes, with everything of it';
        CREATE UNIQUE INDEX responses_by_number ON penstock.responses (number, tenant);
        CREATE INDEX responses_by_end ON penstock.responses (ended_at, tenant) INCLUDE (size)
            WHERE ended_at IS NOT NULL;
        CREATE INDEX responses_by_previous ON penstock.responses (tenant, previous_id)
            WHERE previous_id IS NOT NULL;

        -- A row while a turn runs. It is updated often: pages keep room, and are cleaned up early.
        CREATE TABLE penstock.running (
            tenant text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            response bigint NOT NULL,
            day date NOT NULL,
            conversation_id text COLLATE "C",
            worker text COLLATE "C" NOT NULL,
            token text COLLATE "C" NOT NULL,
            is_started boolean NOT NULL,
            is_cancelled boolean NOT NULL DEFAULT false,
            started_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (tenant, id)
        ) WITH (
            fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
            autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000
        );
        CREATE INDEX running_by_worker ON penstock.running (worker, tenant);
        CREATE INDEX running_by_conversation ON penstock.running (tenant, conversation_id)
            WHERE conversation_id IS NOT NULL;

        CREATE TABLE penstock.workers (
            id text COLLATE "C" PRIMARY KEY,
            lease_until timestamptz NOT NULL
        ) WITH (fillfactor = 50);

        CREATE TABLE penstock.held_keys (
            tenant text COLLATE "C" NOT NULL,
            key text COLLATE "C" NOT NULL,
            worker text COLLATE "C" NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (tenant, key)
        );
        CREATE INDEX held_keys_by_worker ON penstock.held_keys (worker, tenant);

        -- Items of responses. Positions of output begin at 2^23, those of input at 0.
        CREATE TABLE penstock.items (
            response bigint NOT NULL,
            position integer NOT NULL,
            tenant text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (response, position, tenant)
        );
        CREATE INDEX items_by_id
            ON penstock.items (tenant, left(id, 200), (position >= 8388608), response, position);

        -- Logs. Each commit adds one row for each turn. `last` is the sequence number of the last event in a
        -- row, or the position of the last trace. The data is compressed already.
        CREATE TABLE penstock.segments (
            day date NOT NULL,
            tenant text COLLATE "C" NOT NULL,
            response bigint NOT NULL,
            is_trace boolean NOT NULL,
            last bigint NOT NULL,
            count integer NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (response, is_trace, last, tenant, day)
        ) PARTITION BY RANGE (day);
        ALTER TABLE penstock.segments ALTER COLUMN data SET STORAGE EXTERNAL;
        CREATE TABLE penstock.segments_default PARTITION OF penstock.segments DEFAULT;

        CREATE TABLE penstock.memories (
            tenant text COLLATE "C" NOT NULL,
            key text COLLATE "C" NOT NULL,
            response bigint NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (tenant, key),
            FOREIGN KEY (response, tenant) REFERENCES penstock.responses (number, tenant) ON DELETE CASCADE
        );
        CREATE INDEX memories_by_response ON penstock.memories (response, tenant);

        CREATE TABLE penstock.conversations (
            number bigint GENERATED ALWAYS AS IDENTITY,
            tenant text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            created_at bigint NOT NULL,
            changed_at double precision NOT NULL,
            size bigint NOT NULL,
            metadata bytea NOT NULL,
            PRIMARY KEY (tenant, id)
        );
        CREATE UNIQUE INDEX conversations_by_number ON penstock.conversations (number, tenant);
        CREATE INDEX conversations_by_change ON penstock.conversations (changed_at, tenant);

        CREATE TABLE penstock.conversation_items (
            number bigint GENERATED ALWAYS AS IDENTITY,
            conversation bigint NOT NULL,
            tenant text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (conversation, number, tenant),
            FOREIGN KEY (conversation, tenant) REFERENCES penstock.conversations (number, tenant)
                ON DELETE CASCADE
        );
        CREATE INDEX conversation_items_by_id ON penstock.conversation_items (tenant, left(id, 200), number);

        -- The ledger. A row per turn, sums per hour and per day, and what budgets count.
        CREATE TABLE penstock.turns (
            id text COLLATE "C" NOT NULL,
            tenant text COLLATE "C" NOT NULL,
            started_at double precision NOT NULL,
            ended_at double precision,
            is_stored boolean NOT NULL,
            user_agent text COLLATE "C" NOT NULL,
            cost double precision,
            reserved_tokens bigint NOT NULL,
            reserved_cost double precision NOT NULL,
            request_id text COLLATE "C" NOT NULL,
            model text COLLATE "C" NOT NULL,
            target text COLLATE "C" NOT NULL,
            upstream_model text COLLATE "C" NOT NULL,
            upstream_id text COLLATE "C" NOT NULL,
            upstream_status bigint NOT NULL,
            accent text COLLATE "C" NOT NULL,
            stream boolean NOT NULL,
            outcome text COLLATE "C" NOT NULL,
            closer text COLLATE "C" NOT NULL,
            code text COLLATE "C" NOT NULL,
            status bigint NOT NULL,
            attempts bigint NOT NULL,
            last_event text COLLATE "C" NOT NULL,
            last_sequence bigint NOT NULL,
            terminal_sent boolean NOT NULL,
            duration_ms bigint NOT NULL,
            first_output_ms bigint NOT NULL,
            overhead_ms double precision NOT NULL,
            idle_ms bigint NOT NULL,
            bytes_in bigint NOT NULL,
            bytes_out bigint NOT NULL,
            heartbeats bigint NOT NULL,
            input_tokens bigint NOT NULL,
            cached_tokens bigint NOT NULL,
            output_tokens bigint NOT NULL,
            reasoning_tokens bigint NOT NULL,
            usage_estimated boolean NOT NULL,
            diagnostics text COLLATE "C" NOT NULL,
            search text COLLATE "C" NOT NULL,
            worker text COLLATE "C" NOT NULL,
            PRIMARY KEY (tenant, id)
        ) WITH (fillfactor = 80);
        CREATE INDEX turns_by_start ON penstock.turns (started_at, id, tenant);
        CREATE INDEX turns_by_tenant ON penstock.turns (tenant, started_at, id);
        CREATE INDEX turns_unfinished ON penstock.turns (tenant, started_at, id) WHERE ended_at IS NULL;

        CREATE TABLE penstock.turn_hours (
            hour bigint NOT NULL,
            tenant text COLLATE "C" NOT NULL,
            model text COLLATE "C" NOT NULL,
            target text COLLATE "C" NOT NULL,
            outcome text COLLATE "C" NOT NULL,
            turns bigint NOT NULL,
            failed bigint NOT NULL,
            input_tokens bigint NOT NULL,
            cached_tokens bigint NOT NULL,
            output_tokens bigint NOT NULL,
            reasoning_tokens bigint NOT NULL,
            cost double precision NOT NULL,
            unpriced bigint NOT NULL,
            estimated bigint NOT NULL,
            duration_ms bigint NOT NULL,
            PRIMARY KEY (hour, tenant, model, target, outcome)
        ) WITH (fillfactor = 50);
        CREATE TABLE penstock.turn_days (LIKE penstock.turn_hours INCLUDING ALL) WITH (fillfactor = 50);
        CREATE TABLE penstock.tenant_days (
            tenant text COLLATE "C" NOT NULL,
            day bigint NOT NULL,
            tokens bigint NOT NULL,
            cost double precision NOT NULL,
            PRIMARY KEY (tenant, day)
        ) WITH (fillfactor = 50);

        -- One row: the time from which ages are measured, and the first day whose logs are kept.
        CREATE TABLE penstock.state (
            is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
            store_time double precision,
            logs_since date NOT NULL DEFAULT '-infinity'
        );
        INSERT INTO penstock.state DEFAULT VALUES;

        CREATE TABLE penstock.secrets (name text PRIMARY KEY, value bytea NOT NULL);
        """,
    ),
    Step(
        1,
        "keep keys held after the death of their worker",
        """
        ALTER TABLE penstock.held_keys
            ADD COLUMN until timestamptz NOT NULL DEFAULT clock_timestamp() + interval '1 day';
        CREATE INDEX held_keys_by_time ON penstock.held_keys (until, tenant);
        DROP INDEX penstock.held_keys_by_worker;
        """,
    ),
    Step(
        1,
        "find pages of threads",
        """
        CREATE INDEX responses_continuing ON penstock.responses (tenant, created_at, id)
            WHERE previous_id IS NOT NULL;
        CREATE INDEX responses_by_conversation ON penstock.responses (tenant, conversation_id, number)
            WHERE conversation_id IS NOT NULL;
        CREATE INDEX conversations_by_tenant ON penstock.conversations (tenant, changed_at, id);
        """,
    ),
    Step(
        1,
        "keep how long turns took, and why they failed",
        f"""
        ALTER TABLE penstock.turn_hours ADD COLUMN latencies text COLLATE "C" NOT NULL DEFAULT '';
        ALTER TABLE penstock.turn_days ADD COLUMN latencies text COLLATE "C" NOT NULL DEFAULT '';
        CREATE TABLE penstock.turn_causes (
            hour bigint NOT NULL,
            tenant text COLLATE "C" NOT NULL,
            model text COLLATE "C" NOT NULL,
            target text COLLATE "C" NOT NULL,
            outcome text COLLATE "C" NOT NULL,
            code text COLLATE "C" NOT NULL,
            turns bigint NOT NULL,
            PRIMARY KEY (hour, tenant, model, target, outcome, code)
        ) WITH (fillfactor = 50);
        INSERT INTO penstock.turn_causes
        SELECT floor(started_at / 3600)::bigint, tenant, model, target, outcome, left(code, 60), count(*)
        FROM penstock.turns WHERE ended_at IS NOT NULL AND outcome IN ('failed', 'refused')
        GROUP BY 1, 2, 3, 4, 5, 6;

        WITH ended AS (
            SELECT floor(started_at / 3600)::bigint AS hour, tenant, model, target, outcome,
                width_bucket(first_output_ms, {_BOUNDS}) - 1 AS first,
                {DURATIONS - 1} + width_bucket(greatest(duration_ms, 0), {_BOUNDS}) AS duration
            FROM penstock.turns WHERE ended_at IS NOT NULL
        ), marks AS (
            SELECT hour, tenant, model, target, outcome, number, count(*) AS turns FROM (
                SELECT hour, tenant, model, target, outcome, first AS number FROM ended WHERE first >= 0
                UNION ALL SELECT hour, tenant, model, target, outcome, duration FROM ended
            ) AS all_marks GROUP BY 1, 2, 3, 4, 5, 6
        ), texts AS (
            SELECT hour, tenant, model, target, outcome,
                string_agg(chr(65 + number / 26) || chr(97 + number % 26) || turns, '') AS latencies
            FROM marks GROUP BY 1, 2, 3, 4, 5
        )
        UPDATE penstock.turn_hours AS sums SET latencies = texts.latencies FROM texts
        WHERE (sums.hour, sums.tenant, sums.model, sums.target, sums.outcome)
            = (texts.hour, texts.tenant, texts.model, texts.target, texts.outcome);
        WITH texts AS (
            SELECT hour / 24 * 24 AS hour, tenant, model, target, outcome,
                string_agg(latencies, '') AS latencies
            FROM penstock.turn_hours GROUP BY 1, 2, 3, 4, 5
        )
        UPDATE penstock.turn_days AS sums SET latencies = texts.latencies FROM texts
        WHERE (sums.hour, sums.tenant, sums.model, sums.target, sums.outcome)
            = (texts.hour, texts.tenant, texts.model, texts.target, texts.outcome);
        """,
    ),
)

CONTRACT = max(step.contract for step in STEPS)

_LOCK = 0x50454E53
"""`PENS`: the advisory lock under which steps are applied."""

_PREPARE = """
CREATE SCHEMA IF NOT EXISTS penstock;
CREATE TABLE IF NOT EXISTS penstock.schema_steps (
    step integer PRIMARY KEY,
    contract integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""

# The functions `to_reg...` would do the same, but from a cache: after the wait for the lock it would not have
# the tables that another worker has just created.
_TABLES = """
SELECT count(*), count(*) FILTER (WHERE relname = 'schema_steps') > 0
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = 'penstock'
"""


async def check(connection: DatabaseConnection, steps: Sequence[Step] = STEPS) -> int:
    """Return how many steps are applied. Raise, before anything changes, if the tables are too new."""
    tables, has_steps = await connection.fetchrow(_TABLES)
    if tables and not has_steps:
        raise StoreError(
            StoreError.NOT_A_STORE,
            "the schema penstock belongs to another program; use another database",
        )
    if not has_steps:
        return 0
    applied, contract = await connection.fetchrow(
        "SELECT coalesce(max(step), 0), coalesce(max(contract), 0) FROM penstock.schema_steps"
    )
    known = max(step.contract for step in steps)
    if contract > known:
        raise StoreError(
            StoreError.NEWER_VERSION,
            f"a newer Penstock uses this database (contract {contract}, this version supports {known}); "
            "use the newer version, or another database",
        )
    return int(applied)


async def migrate(connection: DatabaseConnection, steps: Sequence[Step] = STEPS) -> list[Step]:
    """Apply the missing steps, each in a transaction of its own, and return them. Several workers may do this
    at the same time: each step is applied once."""
    done: list[Step] = []
    while await check(connection, steps) < len(steps):
        async with transaction(
            connection, "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"
        ):
            # The lock ends with the transaction, so this works through a pooler as well.
            await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
            await connection.execute("SET LOCAL lock_timeout = '10s'")
            applied = await check(connection, steps)
            if applied < len(steps):
                step = steps[applied]
                await connection.execute(f"{_PREPARE}; {step.sql}")
                query = "INSERT INTO penstock.schema_steps (step, contract) VALUES ($1, $2)"
                await connection.execute(query, applied + 1, step.contract)
                done.append(step)
    return done


async def migrate_database(address: DatabaseAddress) -> list[Step]:
    """Apply the missing steps to a database; raise `StoreError` if that is not possible."""
    try:
        connection = await connect(address.direct_url, address)
        try:
            return await migrate(connection)
        finally:
            connection.terminate()
    except StoreError as error:
        raise StoreError(error.code, f"{address.location}: {error.message}") from None
    except Exception as error:
        code, message = failure_of(error)
        raise StoreError(code, f"{address.location}: {message}") from error
