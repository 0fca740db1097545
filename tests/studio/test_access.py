"""The gate: forged cookies and forms, foreign names and pages, rates, sizes, and what the log keeps."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.studio.serving import TOKEN, browser_of, csrf, enter, eventually, studio

from compeer.errors import UserError
from compeer.studio.access import RequestRefused, StudioPerson, person, secret_of
from compeer.studio.app import create_app
from compeer.studio.pages import Room
from compeer.studio.rooms.workplace.annotator import send_picture
from compeer.studio.settings import RateLimit, StudioLimits, StudioSettings, check

PUBLIC = "https://studio.example.org"


class Links:
    """Personal links of two people; `key` is what changes with the link."""

    def __init__(self) -> None:
        self.people = {
            "wei-token": StudioPerson("t:wei", "Wei <b>", "annotator", "k1"),
            "ana-token": StudioPerson("t:ana", "Ana", "guest", "k2"),
        }

    def verify(self, token: str) -> StudioPerson | None:
        return self.people.get(token)

    def find(self, person_id: str, key: str) -> StudioPerson | None:
        return next((one for one in self.people.values() if (one.id, one.key) == (person_id, key)), None)


def room(links: Links | None = None) -> Room:
    """A room that counts what it is told."""
    router, told = APIRouter(), list[str]()

    @router.get("")
    def first(request: Request) -> JSONResponse:
        return JSONResponse({"person": person(request).id, "told": told})

    @router.post("/tell")
    async def tell(request: Request) -> JSONResponse:
        body = await request.body()
        told.append(body.decode())
        return JSONResponse({"size": len(body)})

    @router.post("/upload")
    async def upload(request: Request) -> JSONResponse:
        return JSONResponse({"size": len(await request.body())})

    @router.get("/broken")
    def broken() -> Response:
        raise RuntimeError("the secret of the failing page")

    return Room(
        name="test",
        folder=Path(__file__).parent / "test_room",
        router=router,
        roles=("coordinator", "annotator"),
        links=links,
        uploads=("/upload",),
    )


@pytest.fixture
def local(tmp_path: Path) -> Iterator[str]:
    with studio(tmp_path, [room()]) as address:
        yield address


@pytest.fixture
def links() -> Links:
    return Links()


@pytest.fixture
def guarded(tmp_path: Path, links: Links) -> Iterator[str]:
    with studio(tmp_path, [room(links)], public="http://127.0.0.1:1", token=TOKEN) as address:
        yield address


def told(client: httpx.Client) -> list[str]:
    found: list[str] = client.get("/test").json()["told"]
    return found


def test_a_form_needs_the_token_of_its_own_session(local: str) -> None:
    with browser_of(local) as client, browser_of(local) as other:
        mine, foreign = csrf(client.get("/").text), csrf(other.get("/").text)
        assert client.post("/test/tell", data={"word": "a"}).status_code == 403
        assert client.post("/test/tell", data={"word": "b", "csrf": foreign}).status_code == 403
        assert client.post("/test/tell", content=b"c", headers={"x-csrf-token": "nonsense"}).status_code == 403
        assert told(client) == []
        assert client.post("/test/tell", data={"word": "d", "csrf": mine}).status_code == 200
        assert client.post("/test/tell", json={"word": "e"}, headers={"x-csrf-token": mine}).status_code == 200
        assert client.post("/test/upload", data={"csrf": mine}, files={"file": b"x" * 5}).status_code == 200
        assert told(client) == [f"word=d&csrf={mine}", '{"word":"e"}']


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:1"}, 403),  # another port is another program
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "OWN", "sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_forms_of_other_pages_are_refused(local: str, headers: dict[str, str], status: int) -> None:
    with browser_of(local) as client:
        token = csrf(client.get("/").text)
        sent = {name: value.replace("OWN", local) for name, value in headers.items()}
        assert client.post("/test/tell", content=b"a", headers={**sent, "x-csrf-token": token}).status_code == status
        assert told(client) == (["a"] if status == 200 else [])


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "[", "evil.example:8030"]
)
def test_a_foreign_name_in_the_host_header_is_refused(local: str, host: str) -> None:
    """DNS rebinding: the page's own name points at this machine."""
    with browser_of(local) as client:
        answer = client.get("/test", headers={"host": host})
        assert answer.status_code in (400, 421) and "told" not in answer.text
        port = local.rpartition(":")[2]
        assert client.get("/test", headers={"host": f"localhost:{port}"}).status_code == 200


def test_every_answer_carries_the_policy(local: str) -> None:
    with browser_of(local) as client:
        for path in ("/", "/enter/x", "/nothing", "/test", "/test/broken", "/static/look/base.css", "/static/nothing"):
            headers = client.get(path).headers
            assert headers["content-security-policy"].startswith("default-src 'self'; ")
            assert "unsafe" not in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"
            assert "camera=()" in headers["permissions-policy"]


def test_without_a_link_nothing_is_shown(guarded: str) -> None:
    with browser_of(guarded) as client:
        assert client.get("/test").status_code == 403
        assert "/test" not in client.get("/").text
        assert enter(client, "a guess").status_code == 403
        assert client.get("/test").status_code == 403


def test_opening_a_link_does_not_enter_but_its_button_does(guarded: str) -> None:
    with browser_of(guarded) as client:
        assert client.get(f"/enter/{TOKEN}").status_code == 200
        assert client.get("/test").status_code == 403
        before = dict(client.cookies)
        answer = enter(client)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert dict(client.cookies) != before, "a session that someone planted must not be the one that entered"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
        assert client.get("/test").json()["person"] == "coordinator"
        client.post("/leave", data={"csrf": csrf(client.get("/").text)})
        assert client.get("/test").status_code == 403


def test_a_tampered_or_foreign_cookie_is_nobody(guarded: str, tmp_path: Path) -> None:
    with browser_of(guarded) as client:
        enter(client)
        ((name, value),) = client.cookies.items()
        payload, stamp, signature = value.split(".")
        flipped = payload[:-2] + ("A" if payload[-2] != "A" else "B") + payload[-1]
        with (
            studio(tmp_path / "other", [room()], public="http://127.0.0.1:1", token=TOKEN) as elsewhere,
            browser_of(elsewhere) as other,
        ):
            enter(other)
            (foreign,) = other.cookies.values()
        for forged in (f"{flipped}.{stamp}.{signature}", f"{payload}.{stamp}.{signature[::-1]}", foreign, "x", ""):
            answer = httpx.get(f"{guarded}/test", headers={"cookie": f"{name}={forged}", "accept": "text/html"})
            assert answer.status_code == 403, forged
        assert client.get("/test").status_code == 200


def test_roles_and_links_that_were_taken_back(guarded: str, links: Links) -> None:
    with browser_of(guarded) as wei, browser_of(guarded) as ana:
        enter(wei, "wei-token")
        enter(ana, "ana-token")
        assert "Wei &lt;b&gt;" in wei.get("/").text and "Wei <b>" not in wei.get("/").text
        assert wei.get("/test").json()["person"] == "t:wei"
        assert ana.get("/test").status_code == 403, "the room is not for guests"
        links.people["wei-token"] = StudioPerson("t:wei", "Wei", "annotator", "k3")
        assert wei.get("/test").status_code == 403, "a new link ends the sessions of the old one"


def test_a_public_address_needs_links(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "studio.local", ""):
        with pytest.raises(UserError, match="personal link"):
            check(StudioSettings(host=host, data=tmp_path))
    with pytest.raises(UserError, match="token"):
        create_app(StudioSettings(host="0.0.0.0", public=PUBLIC, data=tmp_path))
    for wrong in ("studio.example.org", "ftp://a", "https://a/path", "https://u@a", "http://[", "https://"):
        with pytest.raises(UserError, match="--public"):
            check(StudioSettings(public=wrong, token=TOKEN, data=tmp_path))
    check(StudioSettings(host="0.0.0.0", public=PUBLIC, token=TOKEN, data=tmp_path))


def test_behind_https_cookies_are_secure_and_only_its_name_is_answered(tmp_path: Path) -> None:
    with studio(tmp_path, [room()], public=PUBLIC, token=TOKEN, host="0.0.0.0") as address:
        headers = {"accept": "text/html", "host": "studio.example.org"}
        page = httpx.get(f"{address}/enter/{TOKEN}", headers=headers)
        assert "; Secure" in page.headers["set-cookie"] and "max-age" in page.headers["strict-transport-security"]
        assert httpx.get(address, headers={"accept": "text/html"}).status_code == 421
        headers |= {"cookie": page.headers["set-cookie"].split(";")[0], "origin": PUBLIC}
        form = {"csrf": csrf(page.text), "token": TOKEN}
        assert (
            httpx.post(
                f"{address}/enter", data=form, headers={**headers, "origin": "http://studio.example.org"}
            ).status_code
            == 403
        )
        assert httpx.post(f"{address}/enter", data=form, headers=headers).status_code == 303


def test_too_many_requests_wait_and_then_go_on(tmp_path: Path) -> None:
    limits = StudioLimits(person=RateLimit(5, 1.0))
    with (
        studio(tmp_path, [room()], limits=limits) as address,
        browser_of(address, **{"accept-language": "zh"}) as client,
    ):
        answers = [client.get("/test") for _ in range(12)]
        late = [answer for answer in answers if answer.status_code == 429]
        assert answers[0].status_code == 200 and late
        assert int(late[0].headers["retry-after"]) >= 1 and "请等" in late[0].text
        eventually(lambda: client.get("/test").status_code == 200)
        assert client.get("/static/look/base.css").status_code == 200


def test_guessing_links_is_slow_and_entering_is_not(tmp_path: Path, links: Links) -> None:
    limits = StudioLimits(enter=RateLimit(2, 0.5))
    with (
        studio(tmp_path, [room(links)], limits=limits, public="http://127.0.0.1:1", token=TOKEN) as address,
        browser_of(address) as client,
    ):
        assert [enter(client, "wei-token").status_code for _ in range(6)] == [303] * 6
        assert 429 in [enter(client, f"guess {number}").status_code for number in range(4)]
        late = client.post(
            "/enter",
            data={"token": "wei-token", "csrf": csrf(client.get("/").text)},
            headers={"accept": "application/json"},
        )
        assert late.status_code == 429 and late.json()["error"]["next"].startswith("Wait")
        eventually(lambda: enter(client, "wei-token").status_code == 303)


def test_a_body_that_is_too_large_is_refused_whole(tmp_path: Path) -> None:
    limits = StudioLimits(body=1000, upload=5000)
    with studio(tmp_path, [room()], limits=limits) as address, browser_of(address) as client:
        headers = {"x-csrf-token": csrf(client.get("/").text)}

        def endless() -> Iterator[bytes]:
            for _ in range(20):
                yield b"x" * 100

        assert client.post("/test/tell", content=b"x" * 1000, headers=headers).status_code == 200
        assert client.post("/test/tell", content=b"x" * 1001, headers=headers).status_code == 413
        assert client.post("/test/tell", content=endless(), headers=headers).status_code == 413, "without a length"
        assert client.post("/test/upload", content=b"x" * 5000, headers=headers).json() == {"size": 5000}
        assert client.post("/test/upload", content=b"x" * 5001, headers=headers).status_code == 413
        assert [len(one) for one in told(client)] == [1000]


def test_an_error_is_a_calm_page_and_a_script_gets_an_object(local: str, caplog: pytest.LogCaptureFixture) -> None:
    with browser_of(local) as client:
        page = client.get("/test/broken")
        assert page.status_code == 500 and "What is safe" in page.text and "secret of the failing" not in page.text
        told_to_script = client.get("/test/broken", headers={"accept": "application/json"}).json()["error"]
        assert told_to_script.keys() == {"status", "title", "what", "safe", "next"}
        assert "找不到这个页面" in client.get("/nothing", headers={"accept-language": "zh-CN,zh;q=0.9"}).text
        assert client.post("/look", data={"csrf": csrf(client.get("/").text), "language": "xx"}).status_code == 303
        assert client.delete("/").status_code == 403
    assert "the secret of the failing page" in caplog.text, "the log has the traceback"


def test_the_log_tells_who_was_refused_and_never_what_was_written(
    guarded: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "compeer.studio")
    with browser_of(guarded) as client:
        enter(client, "wei-token")
        token = csrf(client.get("/").text)
        client.post("/test/tell?words=sorrow", data={"text": "I feel so alone", "csrf": token})
        client.post("/test/tell", data={"text": "I feel so alone"}, headers={"origin": "https://evil.example"})
        client.get("/line%0Abreak")
    eventually(lambda: "/line%0Abreak" in caplog.text)  # the line is written after the response
    lines = caplog.text
    assert "alone" not in lines and "sorrow" not in lines and "wei-token" not in lines and token not in lines
    assert "/enter/…" in lines and "t:wei POST 200 /test/tell" in lines
    (refused,) = [one.getMessage() for one in caplog.records if "refused" in one.getMessage()]
    assert "Origin" in refused and "/test/tell" in refused and "t:wei" in refused and "127.0.0.1" in refused
    assert all("\n" not in one.getMessage() for one in caplog.records)


def test_a_redirect_never_leads_away(local: str) -> None:
    with browser_of(local) as client:
        token = csrf(client.get("/").text)
        for back in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/a\r\nx: y"):
            answer = client.post("/look", data={"csrf": token, "theme": "dark", "back": back})
            assert answer.headers["location"] == "/", back
        assert (
            client.post("/look", data={"csrf": token, "theme": "dark", "back": "/runs?page=2"}).headers["location"]
            == "/runs?page=2"
        )


def test_the_secret_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    made = secret_of(tmp_path / "new")
    assert secret_of(tmp_path / "new") == made and len(made) > 40
    path = tmp_path / "new" / "secret"
    assert path.stat().st_mode & 0o777 == 0o600 and [one.name for one in (tmp_path / "new").iterdir()] == ["secret"]
    path.chmod(0o644)
    with pytest.raises(UserError, match="chmod 600"):
        secret_of(tmp_path / "new")
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(UserError, match="damaged"):
        secret_of(tmp_path / "new")


def test_only_pictures_are_sent_and_only_from_their_folder(tmp_path: Path) -> None:
    folder, png = tmp_path / "pictures", b"\x89PNG\r\n\x1a\n" + b"0" * 20
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "face.png").write_bytes(png)
    (folder / "page.png").write_bytes(b"<svg onload=alert(1)>")
    (tmp_path / "secret.png").write_bytes(png)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    sent = send_picture(folder / "deep" / "face.png")
    assert (sent.body, sent.media_type) == (png, "image/png")
    for wrong in ("link.png", "page.png", "deep", "nothing.png"):
        with pytest.raises(RequestRefused):
            send_picture(folder / wrong)


def test_importing_settings_does_not_import_the_framework() -> None:
    import subprocess

    program = (
        "import sys, typer.main; from compeer.cli import app; print(len(dict(typer.main.get_group(app).commands)) > 10,"
        " [name for name in ('fastapi', 'jinja2', 'starlette') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "True []"
