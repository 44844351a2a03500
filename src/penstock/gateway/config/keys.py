"""Read `[[keys]]`: the clients that may use the gateway, each with the hash of its key and its limits."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from penstock.gateway.config.values import (
    ABOVE,
    ConfigTable,
    InvalidValue,
    flag,
    matching,
    nonempty,
    one_of,
    reads,
    whole_number,
)
from penstock.gateway.settings import EVERY, ClientKey
from penstock.store.ledger import Budget, KeyLimits, Unit
from penstock.store.records import LOCAL
from penstock.stream.accents import ACCENTS

RATES = ("requests_per_minute", "tokens_per_minute", "concurrent_turns")
KEY = (
    *("name", "hash", "accent", "admin", "expires", "models", *RATES, "budget"),
    *("previous_hash", "previous_expires"),
)
"""The settings of a key."""
_OLD = ("operator",)
"""The old spelling of `admin`."""

HASH = re.compile(r"sha256:([0-9a-f]{64})", re.IGNORECASE)
BUDGET = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?) *(tokens|usd) */ *(day|month)", re.IGNORECASE)
RATE = whole_number(1, 1_000_000_000)


def read_keys(tables: list[ConfigTable]) -> tuple[ClientKey, ...]:
    found: list[ClientKey] = []
    for table in tables:
        table.only((*KEY, *_OLD), ABOVE)
        for name in ("name", "hash"):
            if name not in table:
                table.report(f"needs a {name}; `penstock keys create NAME` writes a complete entry")
        entry = ClientKey(
            name=table.read("name", key_name, ""),
            digest=table.read("hash", key_hash, b""),
            accent=table.read("accent", one_of("accent", ACCENTS), ""),
            admin=table.read("admin", flag, False) or table.read("operator", flag, False),
            expires_at=table.read("expires", moment, None),
            previous_digest=table.read("previous_hash", key_hash, b""),
            previous_until=table.read("previous_expires", moment, 0.0),
            models=_models(table),
            limits=_limits(table),
        )
        for name, other in (("previous_hash", "previous_expires"), ("previous_expires", "previous_hash")):
            if name in table and other not in table:
                table.report(f"also needs {other}: `penstock keys rotate` writes both", name)
        if entry.name and any(entry.name == other.name for other in found):
            table.report("another key has this name: use a different one", "name")
        if entry.digest and any(entry.digest == other.digest for other in found):
            table.report("another entry has this hash: list each key once", "hash")
        found.append(entry)
    return tuple(found)


@reads(type="string", pattern=r"\S", **{"not": {"const": LOCAL}})
def key_name(value: object) -> str:
    """Return the name of a key, which is shown in lists and logs; raise `InvalidValue` if it is invalid."""
    name = nonempty(value)
    if not name.isprintable() or len(name) > 64:
        raise InvalidValue("must be a name of at most 64 characters, on one line")
    if name == LOCAL:  # this key would see everything that was stored before there were keys
        raise InvalidValue(f"must not be {LOCAL!r}, which stands for clients without a key: use another name")
    return name


@reads(**matching(BUDGET), allOf=[{"pattern": "[1-9]"}])
def read_budget(value: object) -> Budget:
    """Return a budget such as "1000000 tokens/day" or "20 USD/month"; raise `InvalidValue` if it is none."""
    found = BUDGET.fullmatch(nonempty(value))
    amount = float(found[1].replace("_", "")) if found else 0.0
    if found is None or not 0 < amount < 1e15:
        raise InvalidValue(
            'must be an amount above 0 with its unit and period, such as "1000000 tokens/day" or '
            '"20 USD/month"'
        )
    unit: Unit = "tokens" if found[2].lower() == "tokens" else "cost"
    return Budget(amount, unit, "day" if found[3].lower() == "day" else "month")


def _limits(table: ConfigTable) -> KeyLimits:
    requests, tokens, turns = (table.read(name, RATE, None) for name in RATES)
    return KeyLimits(
        requests_per_minute=requests,
        tokens_per_minute=tokens,
        concurrent_turns=turns,
        budgets=_budgets(table),
    )


def _budgets(table: ConfigTable) -> tuple[Budget, ...]:
    """Read one budget, or a list of them."""
    found: list[Budget] = []
    values = table.values.get("budget", [])
    for index, value in enumerate(values if isinstance(values, list) else [values]):
        place = ("budget", index) if isinstance(values, list) else ("budget",)
        try:
            budget = read_budget(value)
        except InvalidValue as wrong:
            table.report(str(wrong), *place)
            continue
        if any((budget.unit, budget.period) == (other.unit, other.period) for other in found):
            table.report("there is another budget with this unit and period: keep one of them", *place)
        found.append(budget)
    return tuple(found)


def _models(table: ConfigTable) -> tuple[str, ...]:
    found = table.texts("models")
    if "models" in table and table.values["models"] == []:
        table.report("must not be empty; remove the setting to allow every model", "models")
    for index, name in found.items():
        if EVERY in name[:-1]:
            table.report('may have a * only as its last character, such as "gpt-*"', "models", index)
    return tuple(found.values())


# Editors pass a date on to the schema as a string.
@reads(type="string", pattern=r"^\d{4}-\d\d-\d\d(?:$|[Tt ])")
def moment(value: object) -> float:
    """Read a date, which includes that day, or a date and time; without an offset, it is in UTC."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return (datetime(value.year, value.month, value.day, tzinfo=UTC) + timedelta(days=1)).timestamp()
    raise InvalidValue(
        "must be a date, or a date and time, without quotes, such as 2027-01-31 or 2027-01-31T18:00:00Z"
    )


@reads(**matching(HASH))
def key_hash(value: object) -> bytes:
    found = HASH.fullmatch(nonempty(value))
    if found is None:
        raise InvalidValue(
            'must be "sha256:" and 64 hexadecimal digits. `penstock keys create NAME` creates a key and its '
            "hash. If this is the key itself, create a new one: keys do not belong in a file"
        )
    return bytes.fromhex(found[1])
