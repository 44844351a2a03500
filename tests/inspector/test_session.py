"""What the page learns first."""

from __future__ import annotations

from penstock.version import VERSION
from tests.inspector.sites import Site, with_site


def test_it_says_who_the_client_is_and_what_is_kept() -> None:
    async def scenario(site: Site) -> None:
        session = await site.get("session", who="anna")
        assert session.pop("now") > 1e9
        assert session == {
            "version": VERSION,
            "tenant": "anna",
            "is_administrator": False,
            "needs_key": True,
            "is_recording": True,
            "retention": {"store_days": 30, "store_bytes": 10 * 1024**3, "ledger_days": 400},
        }
        assert (await site.get("session", who="root"))["is_administrator"] is True
        assert (await site.get("session", status=401))["error"]["code"] == "authentication_error"

    with_site(scenario, keys=True, record=True)


def test_a_store_in_memory_keeps_nothing_for_a_certain_time() -> None:
    async def scenario(site: Site) -> None:
        assert (await site.get("session"))["retention"] is None

    with_site(scenario, store="none")
