"""Read the section `[store]`: where responses are stored, and how workers send each other messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote, urlsplit

from penstock.errors import StoreError
from penstock.gateway.config.secrets import expanded, variable_names
from penstock.gateway.config.values import ABOVE, ConfigTable, InvalidValue, nonempty
from penstock.store import check_url, is_url

STORE = ("url", "direct_url", "redis")


def read_store(table: ConfigTable, server: ConfigTable, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the store by their names in `Settings`."""
    table.only(STORE, ABOVE)
    values = {name: table.read(name, _location(environment, name), "") for name in STORE}
    if "url" in table and "store" in server:
        table.report("is also set as store under [server]: remove one of them", "url")
    for name in ("direct_url", "redis"):
        if name in table and not is_url(values["url"]):
            table.report('needs a database that several workers share: url = "postgresql://…"', name)
    found = {"store_direct_url": values["direct_url"], "redis": values["redis"]}
    return {**found, "store": values["url"]} if "url" in table else found


def _location(environment: Mapping[str, str], name: str) -> Callable[[object], str]:
    return lambda value: store_url(_with_password(nonempty(value), environment), name)


def store_url(where: str, name: str = "url") -> str:
    """Return the path or the URL of a store, or another URL of this section; raise `InvalidValue`."""
    if name == "url" and "://" not in where:
        return where
    try:
        check_url(where, "redis" if name == "redis" else "store")
    except StoreError as error:
        raise InvalidValue(f"cannot be used: {error.message}") from None
    return where


def _with_password(written: str, environment: Mapping[str, str]) -> str:
    """Return a URL with the values of its variables. A password may have any characters."""
    try:
        password = urlsplit(written).password
    except ValueError:
        raise InvalidValue("is not a URL: write postgresql://USER:$PASSWORD@HOST:PORT/DATABASE") from None
    if not password:
        return expanded(written, environment)
    if not variable_names(password):
        raise InvalidValue(
            "contains a password: put it into an environment variable, and write $NAME in its place. Change "
            "the password, because it was in a file"
        )
    before, after = written.split(f":{password}@", 1)
    shown = quote(expanded(password, environment), safe="")
    return f"{expanded(before, environment)}:{shown}@{expanded(after, environment)}"
