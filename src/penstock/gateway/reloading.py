"""Apply a changed configuration file to a running gateway.

The file is polled, because that works for every editor and every mount: an editor may replace the file, and
Kubernetes replaces the link to its folder. A file that is being written may be valid TOML without its last
lines, such as its keys. So a change is applied only once the file stayed unchanged between two polls.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from penstock.errors import ConfigError, PenstockError
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import are_metrics_exposed, is_exposed
from penstock.gateway.service_manager import tell_reloaded, tell_reloading
from penstock.gateway.settings import Settings
from penstock.gateway.telemetry.logs import log
from penstock.net.server.server import Server
from penstock.net.tls import load_certificate, server_tls_context

POLL = 0.5
"""Seconds between two looks at the file."""

_FIXED = ("host", "port", "store", "store_direct_url", "redis", "metrics", "workers")
"""Settings that apply only when the gateway starts."""

_Signature = tuple[int, ...] | None
_UNKNOWN: _Signature = ()


class Reloader:
    """Reads the settings again and applies them. If they are invalid, the current ones stay."""

    def __init__(
        self,
        read: Callable[[], Settings],
        current: Callable[[], Settings],
        apply: Callable[[Settings], None],
        *,
        has_tls: bool,
    ) -> None:
        """`apply` raises `PenstockError` if the settings cannot be used; `has_tls` is whether the gateway was
        started with a certificate."""
        self._read, self._current, self._apply, self._has_tls = read, current, apply, has_tls

    def reload(self, *, only_changes: bool = False) -> None:
        """Apply the settings. With `only_changes`, do nothing if they are equal to the current ones."""
        if only_changes:
            self._reload(only_changes=True)
            return
        # systemd waits for the end of what it has asked for.
        tell_reloading()
        self._reload(only_changes=False)
        tell_reloaded()

    def _reload(self, *, only_changes: bool) -> None:
        current = self._current()
        try:
            wanted = self._read()
            settings = replace(wanted, **{name: getattr(current, name) for name in _FIXED})
            # The address is the one that the gateway listens at, whatever the file says now.
            if is_exposed(settings):
                raise ConfigError("", 0, _EXPOSED.format(host=settings.host))
            if are_metrics_exposed(settings):
                raise ConfigError("", 0, _METRICS_EXPOSED)
            if self._has_tls and settings.tls_cert:  # if it cannot be loaded, nothing is changed
                server_tls_context(settings.tls_cert, settings.tls_key)
            _log_fixed(current, wanted)
            if only_changes and settings == current:
                return
            self._apply(settings)
        except PenstockError as error:
            log.error("%s", f"the settings were not changed: {str(error).removeprefix(': ')}")
            return
        log.setLevel(settings.log_level.upper())
        log.info("the settings were reloaded")
        if current.keys and not settings.keys:
            log.warning("there are no keys any more: every client on this machine may use the gateway")


def reloader_of(gateway: Gateway, server: Server, read: Callable[[], Settings]) -> Reloader:
    """Return a reloader of a gateway in this process."""
    return Reloader(
        read,
        lambda: gateway.services.settings,
        lambda settings: apply_settings(gateway, server, settings),
        has_tls=server.tls is not None,
    )


def apply_settings(gateway: Gateway, server: Server, settings: Settings) -> None:
    """Use new settings, and load the certificate again."""
    gateway.reload(settings)
    if server.tls is not None and settings.tls_cert:
        load_certificate(server.tls, settings.tls_cert, settings.tls_key)


_EXPOSED = (
    "the gateway listens on {host}, which other machines can reach, so at least one key must stay; to allow "
    "clients without a key, change server.host and restart it"
)
_METRICS_EXPOSED = "other machines can reach the address of the metrics, so their token must stay"


def _log_fixed(current: Settings, wanted: Settings) -> None:
    names = [f"server.{name}" for name in _FIXED if getattr(current, name) != getattr(wanted, name)]
    if bool(current.tls_cert) != bool(wanted.tls_cert):
        names.append("server.tls_cert")
    if names:
        log.warning("%s", f"restart the gateway to apply the new {', '.join(names)}")


class FileWatch:
    """Notices changes of a file. `changed` is called when a change is complete."""

    def __init__(self, path: Path, changed: Callable[[], None]) -> None:
        self._path, self._changed = path, changed
        self._applied = self._seen = _signature(path)

    async def run(self) -> None:
        self._applied = _UNKNOWN  # the file may have changed since the settings were read
        while True:
            await asyncio.sleep(POLL)
            # In a thread: a network file system may take long to respond.
            self.look(await asyncio.to_thread(_signature, self._path))

    def poll(self) -> None:
        """Look at the file once."""
        self.look(_signature(self._path))

    def look(self, found: _Signature) -> None:
        is_stable, self._seen = found == self._seen, found
        if not is_stable or found == self._applied:
            return
        self._applied = found
        if found is None:
            log.warning("%s", f"{self._path} was removed: the gateway keeps its current settings")
        else:
            self._changed()


def _signature(path: Path) -> _Signature:
    """Return what changes with the file behind a path, which may be a link; None if there is none. This
    includes its permissions: a file that could not be read is read again when they are repaired."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev
