"""`penstock chat`: talk to a model in the terminal, or ask it one thing in a pipe.

`session.py` is the program on a terminal, `pipe.py` the one in a pipe; both ask through `client.py`.
`display.py` shows a turn on the screen (`screen.py`), with the text rendered by `markdown.py`. `tools.py`
loads tools from a Python file, `transcript.py` keeps the exchanges, `commands.py` has the slash commands.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, TextIO

from penstock.cli import FOUND, UsageError
from penstock.cli.endpoint import add_endpoint_options

if TYPE_CHECKING:
    import asyncio

    from penstock.cli.chat.client import ChatClient
    from penstock.cli.endpoint import EndpointOptions
    from penstock.parts.parts import DataPart

_USAGE = "penstock chat [--base-url URL | --preset NAME] [options] [PROMPT]"

_DESCRIPTION = """\
Talk to a model at any endpoint that speaks Responses. On a terminal it is a
conversation, and /help there says what can be typed; with PROMPT it is one
question. In a pipe standard input is the question, and only the answer is
printed."""

_EPILOG = """\
examples:
  penstock chat                                  the gateway on this machine
  penstock chat --preset openai --model gpt-5-mini
  penstock chat --base-url http://127.0.0.1:11434/v1 --model qwen3
  penstock chat --tools tools.py                 with tools from a Python file
  penstock chat --image cat.png "What is this?"
  git diff | penstock chat --model m "Write a commit message."

Keys come from environment variables only, and are never shown. docs/chat.md has
a session, an example of a file with tools, and the keys of the terminal.

exit codes:
  0  there is an answer, or the conversation is over
  1  the endpoint refused or failed
  2  nothing was asked: wrong options, unreadable file, nobody at the address"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("prompt", metavar="PROMPT", nargs="?", help="one question; what is piped in comes behind it")
    add("--model", metavar="NAME", help="the model (default: the only one that the endpoint lists)")
    add("--system", metavar="TEXT", help="what the model is told before everything else")
    add("--effort", metavar="LEVEL", help="how much the model thinks: low, medium, high ...")
    add("--no-thinking", action="store_true", help="do not show that the model thinks")
    add("--image", metavar="PATH", action="append", default=[], help="send an image first; may be repeated")
    add("--load", metavar="FILE", help="go on with a conversation that /save wrote")
    add("--tools", metavar="FILE.py", help="offer the functions of a Python file to the model")
    add("--yes", action="store_true", help="run tools without asking")
    add_endpoint_options(parser)


def run(options: argparse.Namespace) -> int:
    output = sys.stdout
    if output.isatty() and sys.stdin is not None and sys.stdin.isatty():
        return _run(options, None)
    with redirect_stdout(sys.stderr):  # what a tool prints is not the answer
        return _run(options, output)


def _run(options: argparse.Namespace, output: TextIO | None) -> int:
    """`output` is for the answer alone; None for a person at a terminal."""
    import asyncio  # here, so that --help does not pay for the imports

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
            return FOUND
        finally:
            runner.run(chat.aclose())


def _question(options: argparse.Namespace, *, is_terminal: bool) -> str:
    """The prompt, and what is piped in behind it."""
    prompt: str = options.prompt or ""
    if is_terminal or (prompt and sys.stdin is not None and sys.stdin.isatty()):
        return prompt
    from penstock.cli.chat.pipe import read_all

    piped = read_all().strip()
    question = "\n\n".join(filter(None, (prompt, piped)))
    if not question and not options.image:
        raise UsageError("there is nothing to ask: give a PROMPT, or pipe one in")
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
