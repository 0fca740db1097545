"""What every HTTP service shares, without a service around it."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from compeer.errors import UserError
from compeer.http_service import (
    Metrics,
    cross_origin_headers,
    has_json_body,
    has_key,
    is_loopback,
    picture_type,
    read_keys,
    require_key_if_exposed,
)


@pytest.mark.parametrize(("host", "alone"), [("localhost", True), ("::1", True), ("10.0.0.1", False), ("x.org", False)])
def test_a_service_that_others_can_reach_needs_a_key(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone
    require_key_if_exposed(host, ("k",), "--key")
    if not alone:
        with pytest.raises(UserError, match="Give one with --key"):
            require_key_if_exposed(host, (), "--key")


def test_keys_come_from_the_command_line_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\n\nalpha\nbeta\n")
    assert read_keys(("alpha", "gamma"), file) == ("alpha", "gamma", "beta")
    file.write_text("# none\n")
    for keys, given, says in (((), file, "holds no key"), ((" ",), None, "is empty"), ((), tmp_path, "cannot be read")):
        with pytest.raises(UserError, match=says):
            read_keys(keys, given)


def test_a_key_is_asked_for_everywhere_but_at_health() -> None:
    def asking(path: str, **headers: str) -> bool:
        return has_key(make_mocked_request("GET", path, headers=headers), ("alpha", "beta"))

    assert asking("/health") and asking("/v1/models", Authorization="Bearer beta")
    assert not asking("/v1/models") and not asking("/v1/models", Authorization="Bearer alphabeta")
    plain = make_mocked_request("POST", "/", headers={"Content-Type": "text/plain"})
    assert not has_json_body(plain) and has_json_body(make_mocked_request("GET", "/"))


def test_only_allowed_origins_may_read_answers() -> None:
    request = make_mocked_request("GET", "/", headers={"Origin": "https://a.example"})
    assert cross_origin_headers(request, ("https://b.example",)) == {}
    found = cross_origin_headers(request, ("https://a.example",), "X-Own")
    assert (
        found["Access-Control-Allow-Origin"] == "https://a.example" and "X-Own" in found["Access-Control-Allow-Headers"]
    )


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n...", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF....WEBPVP8 ", "image/webp"),
        (b"RIFF....WAVEfmt ", None),
        (b"BM....", "image/bmp"),
        (b"<svg>", None),
        (b"", None),
    ],
)
def test_pictures_are_known_by_their_first_bytes(data: bytes, kind: str | None) -> None:
    assert picture_type(data) == kind


def test_the_page_of_metrics() -> None:
    metrics = Metrics("compeer_test")
    metrics.counter("requests", "Requests.", "path").labels("/").inc(2)
    metrics.histogram("seconds", "Time.", (1, 2)).observe(1.5)
    page = str(metrics.response().text)
    assert 'compeer_test_requests_total{path="/"} 2.0' in page and 'compeer_test_seconds_bucket{le="2.0"} 1.0' in page
    assert "_created" not in page
    assert Metrics("compeer_test").response().text == "", "each service has its own"
