"""The rows of a corpus, checked against a schema, wherever they lie: JSON lines, a JSON list, or the hub.

Each importer declares the row it expects as a msgspec Struct, so a missing key or a wrong type is named with its
path ("Expected `str`, got `int` - at `$.dialog[3].text`") and turns away that row only. A record that cannot be used is
yielded as `Rejected`, in its place in the stream, with the reason; it never ends the import and is never dropped in
silence. Only what makes the whole corpus unreadable (no such file, a damaged archive) raises `CorpusError`.

Files are streamed. A byte order mark, CRLF line ends and compressed files (.gz, .bz2, .xz, .zst) need no preparation. A
JSON list of a million dialogues needs no more memory than ten: `json.JSONDecoder.raw_decode` finds where each element
ends. JSON has no line to start again from when an element is broken, so nothing behind such a place can be read.

`parts` finds the files: a path is a file, the corpus folder (one file a split), or a name on the Hugging Face hub
(`thu-coai/esconv`). Such a name must not exist as a path and must look like one: owner/name, no file suffix, and no
local folder of the owner's name (then it is a mistyped path). It needs the `datasets` package and a network. Traps:
Arrow fills absent keys with None, so schemas allow None; a `.txt` corpus comes as rows with the single column `text`.
"""

from __future__ import annotations

import codecs
import importlib
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import msgspec
import zstandard

from compeer.dialogue import Dialogue
from compeer.dialogue.jsonl import COMPRESSED, open_bytes
from compeer.errors import UserError
from compeer.typed import from_json, from_plain, known


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was not imported: where it stands and why."""

    source: str  # the corpus
    file: str  # the file, or the name on the hub
    record: str  # the id the dialogue would have had, or its index where not even that could be read
    line: int  # 1-based line of the file where the record starts; on the hub the row, from 1
    reason: str


class CorpusError(UserError):
    """A corpus that cannot be read: what is wrong, where, and what to do."""

    def __init__(self, where: object, what: str, todo: str) -> None:
        self.where, self.what, self.todo = str(where), what, todo
        super().__init__(f"{where}: {what}. {todo}")


CHUNK = 1 << 20
#: a broken element is told from an unfinished one by its size: no dialogue is larger than this (characters)
LARGEST = 1 << 24
_FILLER = re.compile(r"[\s,]*")


#: the line where a record starts, and its text, or why nothing can be read from there on
Record = tuple[int, bytes | ValueError]


def _lines(file: IO[bytes]) -> Iterator[Record]:
    """Every line that is not blank."""
    for number, line in enumerate(file, start=1):
        if text := line.removeprefix(b"\xef\xbb\xbf").strip():
            yield number, text


def elements(file: IO[bytes]) -> Iterator[Record]:
    """Every element of the JSON list that `file` holds, up to the first broken one."""
    # surrogateescape: bytes that are no UTF-8 come out as they went in, and spoil one element, not the file
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
    scan = json.JSONDecoder().raw_decode
    text, at, line, begun, ended = "", 0, 1, False, False
    while True:
        found = _FILLER.match(text, at)
        end = found.end() if found else at
        line, at = line + text.count("\n", at, end), end
        problem = "the list is not closed: the file ends too early"
        if at < len(text) and not begun:  # the first character is "[", by which the reader chose this form
            at, begun = at + 1, True
            continue
        if at < len(text):
            if text[at] == "]":
                return
            try:
                _, end = scan(text, at)
                if end < len(text) or ended:  # else a number could go on in the next chunk
                    yield line, text[at:end].encode(errors="surrogateescape")
                    line, at = line + text.count("\n", at, end), end
                    continue
            except json.JSONDecodeError as broken:
                problem = f"broken JSON: {broken.msg} (line {line + text.count(chr(10), at, broken.pos)})"
                problem += "; nothing after it can be read"
            except RecursionError:
                problem = "broken JSON: nested too deeply; nothing after it can be read"
        if ended or len(text) - at >= LARGEST:
            yield line, ValueError(problem)
            return
        data = file.read(max(CHUNK, len(text) - at))
        ended = not data
        text, at = text[at:] + decoder.decode(data, final=ended), 0


_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SUFFIX = re.compile(r"\.(json|jsonl|txt|csv|tsv|parquet|gz|bz2|xz|zst)$")


def is_name(path: Path) -> bool:
    """Whether this is a name on the hub rather than a path."""
    text = path.as_posix()
    looks = _NAME.fullmatch(text) is not None and not _SUFFIX.search(text)
    return looks and not path.exists() and not path.parent.exists()


@contextmanager
def _hub_errors(source: str, name: str) -> Iterator[None]:
    """Turn any error of `datasets` (network, name, split) into a CorpusError."""
    try:
        yield
    except CorpusError:
        raise
    except Exception as problem:
        first = next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
        raise CorpusError(
            name,
            f"this is no local path, and the hub did not give it ({type(problem).__name__}: {first})",
            f"Check the name, the split and the network, or download {source} and give its path",
        ) from problem


T = TypeVar("T")
_SAME_SPLIT = {"val": "valid", "validation": "valid", "dev": "valid", "training": "train", "testing": "test"}


class Row(msgspec.Struct, Generic[T], frozen=True):
    """One row and where it stands. `index` counts every record of the file from 0, the broken ones too."""

    value: T
    index: int
    line: int
    file: str


def parts(
    source: str, path: Path, kind: type[T], names: Mapping[str, tuple[str, ...]], split: str | None = None
) -> Iterator[tuple[str, Iterator[Row[T] | Rejected]]]:
    """Splits of a corpus, with rows. `names`: for each split the file names it is known under, the usual one first."""
    if is_name(path):
        for label, rows in _hub_splits(source, str(path), split).items():
            yield label, _hub_rows(source, str(path), rows, kind)
        return
    for label, file in files(path, names, split):
        yield label, read(source, file, kind)


def files(path: Path, names: Mapping[str, tuple[str, ...]], split: str | None = None) -> list[tuple[str, Path]]:
    """Splits and files of a path; CorpusError if there is nothing to read."""
    if path.is_file():
        by_name = {name: label for label, known in names.items() for name in known}
        bare = re.sub(r"\.(gz|bz2|xz|zst)$", "", path.name)
        return [(split or by_name.get(bare) or _slug(bare), path)]
    if not path.is_dir():
        raise CorpusError(path, "there is no such file or folder", "Give the corpus file, its folder, or a hub name")
    wanted = {label: known for label, known in names.items() if split is None or _same(label, split)}
    if not wanted:
        raise CorpusError(path, f"there is no split {split!r}", f"Known splits: {', '.join(names)}")
    found = [
        (label, file)
        for label, known in wanted.items()
        if (file := next((f for n in known for c in ("", *COMPRESSED) if (f := path / (n + c)).is_file()), None))
    ]
    if not found:
        looked = ", ".join(name for known in wanted.values() for name in known)
        raise CorpusError(path, f"none of these files is here: {looked}", "Give the path of the file itself")
    return found


def read(source: str, path: Path, kind: type[T]) -> Iterator[Row[T] | Rejected]:
    """Rows of a JSON lines file or of a JSON list, recognised by its first character."""
    with opened(path) as file:
        head = file.read(1 << 16)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CorpusError(path, "the file is UTF-16", "Convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8")
    if head.startswith(b"version https://git-lfs"):
        raise CorpusError(path, "this is a Git LFS pointer, not the data", "Fetch the file itself with git lfs pull")
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if not first:
        raise CorpusError(path, "the file is empty", "Download it again")
    return _rows(source, path, kind, elements if first == b"[" else _lines)


def _rows(
    source: str, path: Path, kind: type[T], records: Callable[[IO[bytes]], Iterator[Record]]
) -> Iterator[Row[T] | Rejected]:
    decoder = msgspec.json.Decoder(known(kind))
    with opened(path) as file:
        for index, (line, text) in enumerate(records(file)):
            try:
                if isinstance(text, ValueError):
                    raise text
                yield Row(decoder.decode(text), index, line, str(path))
            except (ValueError, RecursionError) as problem:  # msgspec's errors are ValueErrors
                yield rejected(source, path, index, line, problem)


def _hub_splits(source: str, name: str, split: str | None) -> dict[str, Iterable[dict[str, Any]]]:
    """Every split of a dataset, or the one asked for, with its rows, streamed."""
    try:
        datasets: Any = importlib.import_module("datasets")  # heavy: only when a hub name is given
    except ImportError:
        raise CorpusError(
            name,
            "this is no local path, and reading from the hub needs the datasets package",
            "Install it (pip install 'compeer-esc[data]'), or give the path of a downloaded file",
        ) from None
    with _hub_errors(source, name):
        found = datasets.load_dataset(name, split=split, streaming=True)
        return {split: found} if split is not None else dict(found)


def _hub_rows(source: str, name: str, rows: Iterable[dict[str, Any]], kind: type[T]) -> Iterator[Row[T] | Rejected]:
    with _hub_errors(source, name):
        for index, row in enumerate(rows):
            try:
                # a .txt of JSON lines (ESConv) comes from the hub as rows with one column, `text`
                plain = set(row) == {"text"} and isinstance(row["text"], str)
                value = from_json(row["text"], kind) if plain else from_plain(row, kind)
                yield Row(value, index, index + 1, name)
            except (ValueError, RecursionError) as problem:
                yield rejected(source, name, index, index + 1, problem)


def imported(
    source: str,
    rows: Iterator[Row[T] | Rejected],
    identify: Callable[[T, int], str],
    build: Callable[[T, str], Dialogue],
    seen: set[str] | None = None,
) -> Iterator[Dialogue | Rejected]:
    """Each row as a dialogue, or rejected with the error of `build`.

    `seen`: ids met so far, for corpora that bring their own and could bring one twice. Where the id is the
    index there is nothing to check, and no memory to spend on it.
    """
    for row in rows:
        if isinstance(row, Rejected):
            yield row
            continue
        name = identify(row.value, row.index)
        try:
            if seen is not None:
                if name in seen:
                    raise ValueError("an earlier record has the same id")
                seen.add(name)
            yield build(row.value, name)
        except ValueError as problem:
            yield rejected(source, row.file, name, row.line, problem)


def conversations(
    source: str,
    path: Path,
    kind: type[T],
    names: Mapping[str, tuple[str, ...]],
    build: Callable[[T, str], Dialogue],
    split: str | None = None,
    *,
    own_id: Callable[[T, int], str] | None = None,
    digits: int = 5,
) -> Iterator[Dialogue | Rejected]:
    """All dialogues of a corpus, split by split. Ids are SOURCE/SPLIT/PLACE; `own_id` gives the last part instead."""
    for label, rows in parts(source, path, kind, names, split):
        identify = by_index(f"{source}/{label}", digits) if own_id is None else _prefixed(f"{source}/{label}", own_id)
        yield from imported(source, rows, identify, build, seen=None if own_id is None else set())


def _prefixed(prefix: str, own_id: Callable[[T, int], str]) -> Callable[[T, int], str]:
    return lambda row, index: f"{prefix}/{own_id(row, index)}"


def by_index(prefix: str, digits: int = 5) -> Callable[[object, int], str]:
    """Ids from the place in the file: unique, and the same at every import of the same file.

    >>> by_index("esconv/train")(None, 12)
    'esconv/train/00012'
    """
    return lambda _, index: f"{prefix}/{index:0{digits}d}"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file as bytes; damage to it (a truncated archive, a bad disk) is a CorpusError."""
    try:
        with open_bytes(path, "rb") as file:
            yield file
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as problem:
        raise CorpusError(path, f"cannot be read: {problem}", "Check the file, or download it again") from problem


def rejected(source: str, file: object, record: object, line: int, problem: Exception | str) -> Rejected:
    """The rejection of a record, with its problem in words."""
    reason = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
    if isinstance(problem, UnicodeError):
        reason = "not UTF-8"
    return Rejected(source=source, file=str(file), record=str(record), line=line, reason=reason)


def _same(label: str, split: str) -> bool:
    split = split.lower()
    return label == split or _SAME_SPLIT.get(label, label) == _SAME_SPLIT.get(split, split)


def _slug(file_name: str) -> str:
    """A readable part of an id from a file name.

    >>> _slug("My dialogues (2).jsonl")
    'my-dialogues-2'
    """
    stem = re.sub(r"\.\w+$", "", file_name)
    return re.sub(r"[^\w.]+", "-", stem).strip("-").lower() or "data"
