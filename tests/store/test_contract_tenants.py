"""The contract of a store: another tenant's id looks like an unknown id (ask K1). Holds for every store."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.store.contract import Store
from penstock.store.ledger import TurnFilter
from penstock.store.records import LOCAL, StoredConversation
from tests.store.builders import (
    closed,
    complete_turn,
    events,
    for_every_store,
    item,
    item_of,
    items,
    opened,
    read,
    recalled,
    trace,
)
from tests.store.ledger_records import NOON, ended, started

OTHER = "other"


async def everything(store: Store, tenant: str, id: str, item_id: str, conversation: str) -> list[object]:
    """Return the results of every method that takes a tenant."""
    await store.remember(tenant, id, "rs_planted", b"planted")
    return [
        await store.get(tenant, id),
        await store.delete(tenant, id),
        await store.input_items(tenant, id),
        await read(store, id, tenant=tenant),
        await store.traces(tenant, id),
        await store.chain(tenant, id),
        await store.continuations(tenant, id),
        await store.chain_turns(tenant, id),
        await store.conversation_turns(tenant, conversation),
        await store.threads(tenant),
        await item_of(store, tenant, item_id),
        await store.get_conversation(tenant, conversation),
        await store.update_conversation(tenant, conversation, b'{"stolen":true}'),
        await store.add_items(tenant, conversation, items("planted")),
        await store.conversation_items(tenant, conversation),
        await store.delete_item(tenant, conversation, "msg_talk"),
        await store.delete_conversation(tenant, conversation),
        await recalled(store, tenant, "rs_1"),
        await recalled(store, tenant, "rs_planted"),
    ]


@for_every_store
async def test_data_of_another_tenant_looks_unknown_while_it_runs_and_after(store: Store) -> None:
    await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
    await store.add_items(LOCAL, "conv_1", items("msg_talk"))
    await store.open(opened("resp_1", "msg_in", conversation="conv_1"))
    store.log("resp_1", events(0, 3))
    store.trace("resp_1", [trace(1)])
    await store.remember(LOCAL, "resp_1", "rs_1", b"secret")
    assert await recalled(store, OTHER, "rs_1") is None
    unknown = await everything(store, OTHER, "resp_no", "msg_no", "conv_no")
    assert await everything(store, OTHER, "resp_1", "msg_in", "conv_1") == unknown
    await store.stats()
    assert await everything(store, OTHER, "resp_1", "msg_in", "conv_1") == unknown
    await store.close("resp_1", closed("resp_1", "msg_out"), patience=30)
    for id in ("msg_in", "msg_out", "msg_talk"):
        assert await everything(store, OTHER, "resp_1", id, "conv_1") == unknown

    assert await store.get(LOCAL, "resp_1") is not None
    assert await store.get_conversation(LOCAL, "conv_1") == StoredConversation("conv_1", 1, b"{}")
    talk = await store.conversation_items(LOCAL, "conv_1", newest_first=False)
    assert talk is not None
    assert talk.items == items("msg_talk", "msg_in", "msg_out")
    assert await recalled(store, LOCAL, "rs_1") == b"secret"
    assert await recalled(store, LOCAL, "rs_planted") is None
    assert await item_of(store, LOCAL, "planted") is None


@for_every_store
async def test_a_chain_does_not_lead_into_another_tenant(store: Store) -> None:
    await complete_turn(store, "resp_1", ["msg_secret"], ["msg_answer"])
    await complete_turn(store, "resp_2", ["msg_mine"], previous="resp_1", tenant=OTHER)
    assert await store.chain(OTHER, "resp_2") is None
    page = await store.input_items(OTHER, "resp_2")
    assert page is not None
    assert page.items == items("msg_mine")
    await store.open(opened("resp_3", tenant=OTHER, previous="resp_1"))
    page = await store.input_items(OTHER, "resp_3")
    assert page is not None
    assert page.items == ()


@for_every_store
async def test_a_turn_adds_nothing_to_a_conversation_of_another_tenant(store: Store) -> None:
    await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
    await complete_turn(store, "resp_1", ["msg_1"], tenant=OTHER, conversation="conv_1")
    talk = await store.conversation_items(LOCAL, "conv_1")
    assert talk is not None
    assert talk.items == ()


@for_every_store
async def test_two_tenants_may_use_the_same_ids_for_different_things(store: Store) -> None:
    for tenant in (LOCAL, OTHER):
        await store.create_conversation(tenant, StoredConversation("conv_1", 1, tenant.encode()))
        await complete_turn(store, f"resp_{tenant}", tenant=tenant)
        await store.remember(tenant, f"resp_{tenant}", "call_1", tenant.encode())
        await store.add_items(tenant, "conv_1", [item("msg_1", tenant)])
    await store.delete(OTHER, "resp_other")
    await store.delete_conversation(OTHER, "conv_1")
    assert await recalled(store, LOCAL, "call_1") == b"local"
    assert await item_of(store, LOCAL, "msg_1") == item("msg_1", LOCAL)
    assert await item_of(store, OTHER, "msg_1") is None
    found = await store.get_conversation(LOCAL, "conv_1")
    assert found is not None
    assert found.metadata == b"local"


@for_every_store
async def test_a_turn_of_the_ledger_is_found_by_its_id(store: Store) -> None:
    for number in (1, 11):
        store.settle_turn(ended(replace(started(f"resp_{number}", NOON + number), request_id="resp_1")))
    wanted = TurnFilter(id="resp_1")
    assert [each.id for each in (await store.turns(wanted)).turns] == ["resp_1"]
    assert (await store.turns(TurnFilter(id="resp_"))).turns == ()
    assert (await store.turns(replace(wanted, tenant=OTHER))).turns == ()
    [totals] = await store.totals(wanted, ())
    assert totals.turns == 1
