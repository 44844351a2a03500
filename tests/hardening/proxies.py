"""A real nginx in front of a gateway."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from tests.gateway.probes import wait_for

NGINX = shutil.which("nginx")

CONFIG = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream gateway {{ server {gateway}; keepalive 1; }}
  server {{
    listen 127.0.0.1:{port};
    ignore_invalid_headers off;
    underscores_in_headers on;
    location / {{
      proxy_pass http://gateway;
      proxy_http_version 1.1;
      proxy_request_buffering off;
      proxy_buffering off;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
    }}
  }}
}}
"""
"""As lenient as nginx can be, with one kept connection for all clients: the next one would
get the answer to a smuggled request."""


class Fronted:
    """Something with an address that forwards to a gateway."""

    def __init__(self, url: str) -> None:
        self.address: SplitResult = urlsplit(url)


@contextmanager
def nginx(folder: Path, gateway: SplitResult) -> Iterator[Fronted]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, gateway=gateway.netloc, port=port))
    process = subprocess.Popen([str(NGINX), "-p", str(folder), "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: _listens(port))
        yield Fronted(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(10)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
