"""`compeer studio` as people start it: a real process, its words, its end."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import httpx
from tests.cli.command import compeer
from tests.studio.process import Studio
from tests.studio.serving import browser_of, csrf


def test_it_says_where_it_is_works_without_anything_and_ends_in_peace(tmp_path: Path) -> None:
    with Studio(tmp_path, "--port", "0") as studio:
        address, process = studio.address, studio.process
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
        page = httpx.get(address, headers={"accept": "text/html"})
        assert page.status_code == 200 and "come from an AI" in page.text
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        told = studio.log.read_text()
        assert process.returncode == 0 and "Traceback" not in told
        assert re.search(r"127\.0\.0\.1 local GET 200 / \d+ ms", told), told
    assert (tmp_path / "data" / "secret").stat().st_mode & 0o777 == 0o600


def test_a_public_one_prints_the_coordinators_link_and_the_link_works(tmp_path: Path, free_port: int) -> None:
    public = f"http://localhost:{free_port}"
    with Studio(tmp_path, "--port", str(free_port), "--public", public, "--host", "127.0.0.1") as studio:
        assert studio.process.stdout
        told = studio.said + "".join(studio.process.stdout.readline() for _ in range(4))
        found = re.search(rf"{public}/enter/(\S+)", told)
        assert found and len(found.group(1)) >= 32 and "plain http" in told
        with browser_of(public) as client:
            page = client.get(f"/enter/{found.group(1)}")
            assert client.post("/enter", data={"csrf": csrf(page.text), "token": found.group(1)}).status_code == 303
            assert "Rooms" in client.get("/").text


def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    open_to_all = compeer("studio", "--host", "0.0.0.0", "--data", str(tmp_path))
    assert open_to_all.returncode == 1 and "personal link" in open_to_all.stderr and "--public" in open_to_all.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = compeer("studio", "--port", str(taken.getsockname()[1]), "--data", str(tmp_path))
    assert done.returncode == 1 and "Give another --port" in done.stderr
    wrong = compeer("studio", "--runs", str(tmp_path / "nothing"))
    assert wrong.returncode == 1 and "is not a folder" in wrong.stderr
    for told in (open_to_all, done, wrong):
        assert "Traceback" not in told.stderr
