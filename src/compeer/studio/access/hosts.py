"""Which names this server answers to, and from whose pages it takes forms.

A page on the internet can make a browser call a server on its owner's machine by pointing its own name at 127.0.0.1
(DNS rebinding). The Host header then still carries that page's name, so only known names are answered.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from compeer.studio.settings import LOOPBACK_NAMES, Settings, is_loopback, origin


class Hosts:
    def __init__(self, settings: Settings) -> None:
        self.public = origin(settings.public) if settings.public else None
        self.names = {urlsplit(self.public).hostname} if self.public else set()
        if settings.public is None or is_loopback(settings.host):
            self.names |= {*LOOPBACK_NAMES, settings.host.strip("[]").lower()}

    def known(self, host: str) -> bool:
        """Whether a Host header names this server. Any port: it may be forwarded from another one."""
        try:
            return urlsplit(f"//{host}").hostname in self.names and "@" not in host and "/" not in host
        except ValueError:
            return False

    def ours(self, sender: str, host: str) -> bool:
        """Whether an Origin header is that of our own pages."""
        try:
            if self.public is not None and origin(sender) == self.public:
                return True
            parts = urlsplit(sender)
        except (KeyError, ValueError):  # "null", another scheme
            return False
        return parts.scheme == "http" and parts.hostname in LOOPBACK_NAMES and parts.netloc.lower() == host.lower()
