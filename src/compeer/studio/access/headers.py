"""What every answer tells the browser to forbid.

Pages may load only what this server sends, run no script and apply no style that stands in the page itself, be framed
by nobody, and use no camera, microphone or place. `same-origin` as the referrer policy: with `no-referrer` browsers
would send forms with `Origin: null`, which cannot be told from a forged one.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders

POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
#: for a file that somebody else wrote: its own scripts may run, in a world of its own without cookies or network
SANDBOX = "; ".join(
    (
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "font-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
FORBIDDEN = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def forbid(headers: MutableHeaders, *, secure: bool) -> None:
    """Add what the answer does not say itself."""
    for name, value in FORBIDDEN.items():
        headers.setdefault(name, value)
    if secure:
        headers.setdefault("strict-transport-security", "max-age=31536000")
