"""Content parts: what messages, reasoning and tool outputs are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from msgspec import UNSET, UnsetType

from penstock.protocol.wire import Wire

if TYPE_CHECKING:

    class TopLogProb(TypedDict):
        token: str
        logprob: float
        bytes: list[int]

    class LogProb(TypedDict):
        """A token with its alternatives."""

        token: str
        logprob: float
        bytes: list[int]
        top_logprobs: list[TopLogProb]

else:
    # At run time they are plain dicts: vendors' log probabilities are passed on unread, on a hot path.
    TopLogProb = LogProb = dict[str, Any]


class UrlCitation(Wire, kw_only=True):
    type: str = "url_citation"
    url: str
    start_index: int = 0
    end_index: int = 0
    title: str = ""


class FileCitation(Wire):
    """A citation of a vendor's stored file. Not in the specification, but OpenAI's clients read it."""

    type: str = "file_citation"
    file_id: str | UnsetType = UNSET
    filename: str | UnsetType = UNSET
    index: int | UnsetType = UNSET


class UnknownAnnotation(Wire):
    catch_all: ClassVar[bool] = True

    type: str = ""


Annotation = UrlCitation | FileCitation | UnknownAnnotation


class InputText(Wire, kw_only=True):
    type: str = "input_text"
    text: str


class InputImage(Wire):
    """`detail` is required in a response and optional in a request: it is written if it was given."""

    type: str = "input_image"
    image_url: str | UnsetType | None = UNSET
    detail: str | UnsetType = UNSET
    file_id: str | UnsetType = UNSET


class InputFile(Wire):
    type: str = "input_file"
    filename: str | UnsetType = UNSET
    file_data: str | UnsetType = UNSET
    file_url: str | UnsetType = UNSET
    file_id: str | UnsetType = UNSET


class InputVideo(Wire, kw_only=True):
    type: str = "input_video"
    video_url: str


class OutputText(Wire):
    """`annotations` and `logprobs` are always written: SDKs iterate over both (ask A7)."""

    type: str = "output_text"
    text: str = ""
    annotations: list[Annotation] = []
    logprobs: list[LogProb] = []


class Refusal(Wire):
    type: str = "refusal"
    refusal: str = ""


class ReasoningText(Wire):
    type: str = "reasoning_text"
    text: str = ""


class SummaryText(Wire):
    type: str = "summary_text"
    text: str = ""


class PlainText(Wire):
    """The specification's part type `text`."""

    type: str = "text"
    text: str = ""


class EncryptedContent(Wire):
    """Text between agents. Codex writes plain text here if the upstream did not encrypt it (field F5)."""

    type: str = "encrypted_content"
    encrypted_content: str = ""


class UnknownPart(Wire):
    catch_all: ClassVar[bool] = True

    type: str = ""


ContentPart = (
    InputText
    | InputImage
    | InputFile
    | InputVideo
    | OutputText
    | Refusal
    | ReasoningText
    | SummaryText
    | PlainText
    | EncryptedContent
    | UnknownPart
)

JsonObject = dict[str, Any]

JsonValue = object
"""Any JSON value except null, not validated."""
