"""`compeer studio` as people start it: a real process, its words, its end."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.cli.command import COMPEER, compeer, environment
from tests.studio.serving import browser_of, csrf


@contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The command, and what it said when it was ready."""
    process = subprocess.Popen(
        [COMPEER, "studio", *words], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        yield process, [process.stdout.readline()]
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def test_it_says_where_it_is_works_without_anything_and_ends_in_peace(tmp_path: Path) -> None:
    with running("--port", "0", "--data", str(tmp_path / "data")) as (process, said):
        address = said[0].split()[-1]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
        page = httpx.get(address, headers={"accept": "text/html"})
        assert page.status_code == 200 and "is an AI" in page.text
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=20)
        assert process.returncode == 0 and "Traceback" not in told
        assert re.search(r"127\.0\.0\.1 local GET 200 / \d+ ms", told), told
    assert (tmp_path / "data" / "secret").stat().st_mode & 0o777 == 0o600


def test_a_public_one_prints_the_coordinators_link_and_the_link_works(tmp_path: Path, free_port: int) -> None:
    public = f"http://localhost:{free_port}"
    words = ("--port", str(free_port), "--public", public, "--data", str(tmp_path), "--host", "127.0.0.1")
    with running(*words) as (process, said):
        assert process.stdout
        said += [process.stdout.readline() for _ in range(4)]
        told = "".join(said)
        found = re.search(rf"{public}/enter/(\S+)", told)
        assert found and len(found.group(1)) >= 32 and "plain http" in told
        with browser_of(public) as client:
            page = client.get(f"/enter/{found.group(1)}")
            assert client.post("/enter", data={"csrf": csrf(page.text), "token": found.group(1)}).status_code == 303
            assert "The rooms" in client.get("/").text


def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    open_to_all = compeer("studio", "--host", "0.0.0.0", "--data", str(tmp_path))
    assert open_to_all.returncode == 1 and "personal link" in open_to_all.stderr and "--public" in open_to_all.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = compeer("studio", "--port", str(taken.getsockname()[1]), "--data", str(tmp_path))
    assert done.returncode == 1 and "Give another --port" in done.stderr
    wrong = compeer("studio", "--runs", str(tmp_path / "nothing"))
    assert wrong.returncode == 1 and "is no folder" in wrong.stderr
    for told in (open_to_all, done, wrong):
        assert "Traceback" not in told.stderr
