"""Checks an answer that is not declared as an event stream: it may not come from an API at all.

Content types are wrong too often to rely on them, so the first bytes decide. An event stream or a JSON
document is passed on, and so is any other API format that is recognised: the pipeline names it. Anything
else is a web page, a text or nothing: the base URL is probably wrong.
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.recognition import format_of_bytes
from penstock.errors import ProtocolError
from penstock.net.answer import HttpAnswer
from penstock.net.error_responses import read_json_body
from penstock.net.source import SourceCallbacks
from penstock.net.wrong_addresses import HEAD, not_an_answer
from penstock.sse import LONGEST_BLANK, is_event_stream, without_blanks

_JSON_STARTS = (b"{", b"[")

ANSWER_FIELDS = frozenset(
    {
        *("choices", "candidates", "content", "output", "message", "response", "object", "type", "id"),
        *("model", "usage", "usageMetadata", "promptFeedback", "finishReason", "data", "text"),
        # Errors, which some servers send with status 200.
        *("error", "errors", "detail", "details", "base_resp", "code", "msg", "status_code"),
    }
)
"""Fields of answers and errors in any dialect. An object without any of them is something else."""


class CheckedAnswer:
    """An answer whose beginning is checked before it is passed on. What is not an API's answer fails."""

    def __init__(self, answer: HttpAnswer) -> None:
        self._answer = answer
        self.status = answer.status
        self.content_type = answer.content_type
        self.request_id = answer.request_id
        self._callbacks: SourceCallbacks
        self._head = b""
        """What was received until the check has ended, without the blanks before it."""
        self._blank_size = 0
        self._is_checking = True

    def start(self, callbacks: SourceCallbacks) -> None:
        self._callbacks = callbacks
        self._answer.start(self)

    def pause(self) -> None:
        self._answer.pause()

    def resume(self) -> None:
        self._answer.resume()

    def finish(self) -> None:
        self._answer.finish()

    def close(self) -> None:
        self._answer.close()

    def mask(self, text: str) -> str:
        return self._answer.mask(text)

    def mask_value(self, value: Any) -> Any:
        return self._answer.mask_value(value)

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        return self._answer.mask_bytes(data, before)

    # Called by the answer

    def data(self, data: bytes) -> None:
        if not self._is_checking:
            self._callbacks.data(data)
            return
        # Drop blanks as they arrive, so that none is looked at twice.
        head = self._head = without_blanks(self._head + data)
        if not head:
            self._blank_size += len(data)
        is_long = len(head) > HEAD or self._blank_size > LONGEST_BLANK
        if is_event_stream(head) or (is_long and _may_be_answer(head)):
            self._pass_on()
        elif is_long:
            self._refuse()

    def end(self) -> None:
        if self._is_checking:
            if not _is_answer(self._head):
                self._refuse()
                return
            self._pass_on()
        self._callbacks.end()

    def failed(self, error: Exception, refused: bytes = b"") -> None:
        if self._is_checking:
            if self._head and not _may_be_answer(self._head):
                self._refuse()  # enough of it has arrived
                return
            self._pass_on()
        self._callbacks.failed(error, refused)

    def _pass_on(self) -> None:
        self._is_checking = False
        head, self._head = self._head, b""
        if head:
            self._callbacks.data(head)

    def _refuse(self) -> None:
        answer = self._answer
        answer.close()
        message = not_an_answer("the upstream", answer, self._head)
        error = ProtocolError(message, code="upstream_invalid", request_id=answer.request_id)
        self._callbacks.failed(error, self._head)


def _may_be_answer(head: bytes) -> bool:
    """Return whether these first bytes, without blanks, may come from an API."""
    if head[:1] in _JSON_STARTS:
        return True
    return bool(head) and (is_event_stream(head) is not False or bool(format_of_bytes(head)))


def _is_answer(body: bytes) -> bool:
    """Return whether a complete body may be an answer or an error. The dialect reports invalid JSON."""
    if body[:1] not in _JSON_STARTS:
        return _may_be_answer(body)
    value = read_json_body(body)
    if isinstance(value, list):
        value = value[0] if value else {}
    return value is None or (isinstance(value, dict) and not ANSWER_FIELDS.isdisjoint(value))
