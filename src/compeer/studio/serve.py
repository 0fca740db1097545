"""Running the studio: bind the port, print the address, serve, shut down.

The port is bound first, so a port in use gives a sentence and no traceback. On Ctrl-C or SIGTERM no new requests are
accepted and those in flight get some seconds; a second Ctrl-C ends at once.
"""

from __future__ import annotations

import logging
import secrets
import signal
import socket
import sys

import msgspec
import uvicorn

from compeer.errors import UserError
from compeer.studio.app import create_app
from compeer.studio.settings import StudioSettings, is_loopback, origin

GRACE = 8  # seconds


def serve(settings: StudioSettings) -> None:
    """Run until stopped. A token for the coordinator's link is made when one is needed and none is given."""
    if settings.public is not None and settings.token is None:
        settings = msgspec.structs.replace(settings, token=secrets.token_urlsafe(24))
    app = create_app(settings)
    listening = bind(settings.host, settings.port)
    _log_to_stderr()
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # only a proxy on this machine may say for whom it asks
        proxy_headers=settings.guarded and is_loopback(settings.host),
        forwarded_allow_ips="127.0.0.1,::1",
        timeout_graceful_shutdown=GRACE,
    )
    for line in announcement(settings, listening.getsockname()[1]):
        print(line, flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn takes them over, and sends them again at its end
        signal.signal(number, lambda *_: None)
    uvicorn.Server(config).run(sockets=[listening])


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; UserError when the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP: asyncio turns Nagle's algorithm off only then; with it every response waits 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise UserError(f"The studio cannot listen on {host} port {port}: {reason}. Give another --port.") from None
    return listening


def announcement(settings: StudioSettings, port: int) -> list[str]:
    """The lines that are printed at the start."""
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.public is None:
        return [f"The studio is open at http://{shown}:{port}", "Only this machine can reach it. Ctrl-C stops it."]
    address = origin(settings.public)
    lines = [
        f"The studio listens on {shown}:{port} for {address}",
        "Everyone needs a personal link. Yours, as the coordinator:",
        f"  {address}/enter/{settings.token}",
        "Keep it to yourself; a restart makes a new one unless $COMPEER_STUDIO_TOKEN is set.",
    ]
    if not settings.secure:
        lines.append("Warning: plain http can be read by others on the way. Put the studio behind https.")
    return lines


def _log_to_stderr() -> None:
    log = logging.getLogger("compeer.studio")
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
