"""Messages between agents, for every upstream (field F5)."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from penstock.dialects.agent_messages import is_ciphertext, readable_parts
from penstock.dialects.registry import RENDERED, rendered_dialect
from penstock.errors import UnreadableContent
from penstock.protocol.content import InputImage, InputText
from penstock.protocol.items import AgentMessage
from tests.dialects.render_cases import PIXEL, plan_for, user
from tests.protocol.reading import item

TASK = "Read src/main.py and list every function in it."
CIPHERTEXT = "gAAAAABo" + "aB3_-" * 40


def encrypted(text: str) -> dict[str, Any]:
    return {"type": "encrypted_content", "encrypted_content": text}


def agent_message(*content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "agent_message", "id": "amsg_1", "content": list(content), **fields}


def parts(raw: dict[str, Any]) -> list[Any]:
    found = item(raw)
    assert isinstance(found, AgentMessage)
    return readable_parts(found)


def test_plain_text_in_an_encrypted_part_is_read() -> None:
    assert parts(agent_message(encrypted(TASK))) == [InputText(text=TASK)]


def test_author_and_recipient_are_shown_before_the_text() -> None:
    found = parts(agent_message(encrypted(TASK), author="/root", recipient="/root/reader"))
    assert found == [InputText(text="[message from /root to /root/reader]"), InputText(text=TASK)]
    assert parts(agent_message(encrypted(TASK), author="/root"))[0].text == "[message from /root]"


def test_other_parts_are_kept_in_order() -> None:
    text, image = {"type": "input_text", "text": "Payload:"}, {"type": "input_image", "image_url": PIXEL}
    assert parts(agent_message(text, encrypted(TASK), image)) == [
        InputText(text="Payload:"),
        InputText(text=TASK),
        InputImage(image_url=PIXEL),
    ]
    assert parts({"type": "agent_message", "content": TASK}) == [InputText(text=TASK)]
    assert parts({"type": "agent_message", "content": None}) == []


def test_ciphertext_is_refused_by_name_even_next_to_readable_text() -> None:
    with pytest.raises(UnreadableContent, match="encrypted") as refused:
        parts(agent_message({"type": "input_text", "text": "Payload:"}, encrypted(CIPHERTEXT)))
    assert (refused.value.code, refused.value.param) == ("encrypted_content_unreadable", "input")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CIPHERTEXT, True),
        (b64encode(bytes(range(256))).decode(), True),
        (TASK, False),
        ("", False),
        ("continue", False),
        ("src/penstock/dialects/agent_messages", False),
        ("x" * 500, False),
        ("読み込んでください" * 40, False),
        ("word " * 40, False),
    ],
)
def test_what_counts_as_ciphertext(text: str, expected: bool) -> None:
    assert is_ciphertext(text) is expected


@pytest.mark.parametrize("dialect", sorted(RENDERED))
def test_a_sub_agent_gets_its_task_as_a_user_message(dialect: str) -> None:
    request = {"input": [user("Start."), agent_message(encrypted(TASK), author="/root")]}
    found = rendered_dialect(dialect).render(plan_for(request, dialect=dialect))
    assert TASK in str(found.body)
    assert "agent_message" not in str(found.body)
    assert found.diagnostics == []


@pytest.mark.parametrize("dialect", sorted(RENDERED))
def test_every_upstream_but_the_vendors_own_refuses_ciphertext(dialect: str) -> None:
    request = {"input": [agent_message(encrypted(CIPHERTEXT))]}
    with pytest.raises(UnreadableContent):
        rendered_dialect(dialect).render(plan_for(request, dialect=dialect))


def test_openai_gets_the_message_unchanged() -> None:
    message = agent_message(encrypted(CIPHERTEXT), author="/root", status="completed")
    found = rendered_dialect("responses").render(
        plan_for({"input": [message]}, dialect="responses", vendor="openai")
    )
    assert found.body["input"] == [
        {"type": "agent_message", "author": "/root", "content": [encrypted(CIPHERTEXT)]}
    ]
