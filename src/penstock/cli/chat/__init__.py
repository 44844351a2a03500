"""`penstock chat`: chat with a model in the terminal, or send a single prompt in a pipe.

`session.py` is the chat on a terminal, `pipe.py` the one in a pipe; both send requests through `client.py`.
`display.py` shows a turn on the screen (`screen.py`), with the text rendered by `markdown.py`. `tools.py`
loads tools from a Python file, `transcript.py` holds the exchanges, `commands.py` has the slash commands.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, TextIO

from penstock.cli import PROBLEM, UsageError
from penstock.cli.endpoint import add_endpoint_options

if TYPE_CHECKING:
    import asyncio

    from penstock.cli.chat.client import ChatClient
    from penstock.cli.endpoint import EndpointOptions
    from penstock.parts.parts import DataPart

_USAGE = "penstock chat [--base-url URL | --preset NAME] [options] [PROMPT]"

_DESCRIPTION = """\
Chat with a model at any endpoint with a Responses API. On a terminal this is an
interactive conversation (/help lists the commands); with PROMPT it is a single
question. In a pipe, standard input is the question, and only the answer is
printed."""

_EPILOG = """\
examples:
  penstock chat                                  the local gateway
  penstock chat --preset openai --model gpt-5-mini
  penstock chat --base-url http://127.0.0.1:11434/v1 --model qwen3
  penstock chat --tools tools.py                 with tools from a Python file
  penstock chat --image cat.png "What is this?"
  git diff | penstock chat --model m "Write a commit message."

API keys are read from environment variables only, and never shown. docs/chat.md
has an example session, an example tools file, and the keyboard shortcuts.

exit codes:
  0  the model answered, or the conversation ended
  1  the endpoint returned an error, or the model only called tools
  2  nothing was sent: wrong options, unreadable file, no server at the address"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("prompt", metavar="PROMPT", nargs="?", help="a single question; piped input is appended to it")
    add("--model", metavar="NAME", help="the model (default: the endpoint's only model)")
    add("--system", metavar="TEXT", help="the system prompt")
    add("--effort", metavar="LEVEL", help="the reasoning effort: low, medium, high ...")
    add("--no-thinking", action="store_true", help="do not show the model's thinking")
    add("--image", metavar="PATH", action="append", default=[], help="send an image; may be repeated")
    add("--load", metavar="FILE", help="continue a conversation written by /save")
    add("--tools", metavar="FILE.py", help="let the model call the functions of a Python file")
    add("--yes", action="store_true", help="run tools without asking")
    add_endpoint_options(parser)


def run(options: argparse.Namespace) -> int:
    output = sys.stdout
    if output.isatty() and sys.stdin is not None and sys.stdin.isatty():
        return _run(options, None)
    from penstock.cli.terminal import SafeErrors

    with redirect_stdout(SafeErrors()):  # output printed by tools is not part of the answer
        return _run(options, output)


def _run(options: argparse.Namespace, output: TextIO | None) -> int:
    """Run the chat. `output` receives only the answer; None means an interactive terminal."""
    import asyncio  # imported here to keep --help fast

    from penstock.cli.chat.client import question_of
    from penstock.cli.chat.images import mentioned_images, read_image
    from penstock.cli.chat.pipe import answer_plainly
    from penstock.cli.endpoint import read_endpoint
    from penstock.cli.endpoint_errors import explain_error
    from penstock.cli.terminal import Terminal
    from penstock.errors import OpenResponsesError

    endpoint = read_endpoint(options)
    images = [read_image(name) for name in options.image]
    if output is not None and options.prompt:  # on a terminal the session does this
        options.prompt, mentioned = mentioned_images(options.prompt)
        images += mentioned
    question = _question(options, is_terminal=output is None)
    chat = _chat(options, endpoint)
    with asyncio.Runner() as runner:
        try:
            runner.run(_start(chat, options.model))
            if output is None:
                return _on_terminal(runner, chat, options, images)
            return answer_plainly(
                runner, chat, question_of(question, images), output=output, allow_all=options.yes
            )
        except OpenResponsesError as error:
            Terminal().note(explain_error(error, endpoint, options.model or ""))
            return PROBLEM
        finally:
            runner.run(chat.aclose())


def _question(options: argparse.Namespace, *, is_terminal: bool) -> str:
    """Return the prompt followed by the piped input."""
    prompt: str = options.prompt or ""
    if is_terminal or (prompt and sys.stdin is not None and sys.stdin.isatty()):
        return prompt
    from penstock.cli.chat.pipe import read_all

    piped = read_all().strip()
    question = "\n\n".join(filter(None, (prompt, piped)))
    if not question and not options.image:
        raise UsageError("there is no question: pass a PROMPT, or pipe one in")
    return question


def _chat(options: argparse.Namespace, endpoint: EndpointOptions) -> ChatClient:
    from penstock.cli.chat.client import ChatClient
    from penstock.cli.chat.tools import load_tools
    from penstock.cli.chat.transcript import Transcript

    transcript = Transcript(options.system or "")
    if options.load:
        transcript.load(options.load)
    tools = load_tools(options.tools) if options.tools else []
    return ChatClient(endpoint, transcript, tools, effort=options.effort or "")


async def _start(chat: ChatClient, model: str | None) -> None:
    from penstock.cli.endpoint_errors import logged_to

    with logged_to():
        await chat.choose(model)


def _on_terminal(
    runner: asyncio.Runner, chat: ChatClient, options: argparse.Namespace, images: list[DataPart]
) -> int:
    from penstock.cli.chat.session import Session

    thinking = "none" if options.no_thinking else "folded"
    session = Session(runner, chat, images=images, thinking=thinking, allow_all=options.yes)
    return session.ask_once(options.prompt) if options.prompt else session.converse()
