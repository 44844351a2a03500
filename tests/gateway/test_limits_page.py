"""The table of limits names every setting that limits what is sent, and the settings exist."""

from __future__ import annotations

from msgspec.structs import fields

from penstock.gateway.limits_page import as_markdown, rows
from penstock.gateway.settings import Limits

NOT_ABOUT_WHAT_IS_SENT = {
    *("patience", "comment_every", "event_every", "retries", "retry_wait", "drain", "disconnect_grace"),
    *("store_days", "ledger_days", "store_bytes"),
}


def test_every_setting_that_limits_a_client_or_an_upstream_has_a_row() -> None:
    settings = {field.name for field in fields(Limits)}
    assert {setting for _, _, setting, _ in rows() if setting} == settings - NOT_ABOUT_WHAT_IS_SENT


def test_the_table_has_the_defaults_of_the_code() -> None:
    table = as_markdown()
    assert (
        f"| items of a request | {Limits().input_items:,} | `input_items` | 400 `invalid_request` |" in table
    )
    assert len({what for what, *_ in rows()}) == len(rows())
