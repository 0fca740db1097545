"""JSON lines in and out: every compression, exact errors, whole files or none, and little memory."""

import bz2
import gzip
import io
import json
import lzma
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from compeer.dialogue import Dialogue, RecordError, Utterance, read, read_rows, write_rows
from compeer.errors import UserError

SUFFIXES = ["jsonl", "jsonl.gz", "jsonl.bz2", "jsonl.xz", "jsonl.zst"]
COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


def numbered(number: int, text: str = "Hi.") -> Dialogue:
    said = (Utterance(speaker="seeker", text=text),)
    return Dialogue(id=f"d{number}", source="test", licence="CC0 1.0", language="en", utterances=said)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_written_and_read_again(tmp_path: Path, full: Dialogue, bare: Dialogue, suffix: str) -> None:
    path = tmp_path / "new" / "folder" / f"talk.{suffix}"
    assert write_rows(path, [full, bare]) == 2
    assert list(read(path)) == [full, bare]
    assert list(read(str(path))) == [full, bare]
    assert [p.name for p in path.parent.iterdir()] == [path.name], "no temporary file stays"


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
def test_the_suffix_chooses_the_compression(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"talk.{suffix}"
    write_rows(path, [numbered(1)])
    opened: dict[str, Callable[[bytes], bytes]] = {
        "jsonl.gz": gzip.decompress,
        "jsonl.bz2": bz2.decompress,
        "jsonl.xz": lzma.decompress,
        "jsonl.zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
    }
    assert json.loads(opened[suffix](path.read_bytes()))["id"] == "d1"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_records_make_equal_files(
    tmp_path: Path, full: Dialogue, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for number, name in enumerate(("one", "another")):
        monkeypatch.setattr("time.time", lambda now=1e9 * (number + 1): now)  # gzip would note it
        write_rows(tmp_path / f"{name}.{suffix}", [full])
        written.append((tmp_path / f"{name}.{suffix}").read_bytes())
    assert written[0] == written[1]


def test_one_line_a_record_in_utf8(tmp_path: Path, bare: Dialogue) -> None:
    path = tmp_path / "a.jsonl"
    write_rows(path, [bare, numbered(2, "two\nlines")])
    first, second, rest = path.read_bytes().split(b"\n")
    assert "睡不着" in first.decode()
    assert json.loads(second)["utterances"][0]["text"] == "two\nlines"
    assert rest == b""


def test_blank_lines_windows_lines_and_a_missing_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\n{"a": 1}\r\n \n{"a": 2}')
    assert list(read_rows(path, dict)) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("suffix", [s[6:] for s in SUFFIXES[1:]])
def test_archives_put_one_after_the_other_are_read_to_the_end(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(COMPRESSED[suffix](b'{"a": 1}\n') + COMPRESSED[suffix](b'{"a": 2}\n'))
    assert list(read_rows(path, dict)) == [{"a": 1}, {"a": 2}]


BROKEN = [
    ("cut off", b'{"id": "bad", "source": "test"', "truncated", "bad"),
    ("not JSON", b"hello", "malformed", None),
    ("a wrong label", json.dumps({"id": "bad", "source": "s", "licence": "", "language": "en", "emotion": "odd",
     "utterances": [{"speaker": "seeker", "text": "Hi."}]}).encode(), "unknown emotion 'odd'", "bad"),
    ("not UTF-8", b'{"id": "bad", "source": "\xff"}', "utf-8", "bad"),
    ("a list", b"[1]", "Expected `object`", None),
    ("nested without end", b'{"id": "bad", "extra": {"a":' + 100_000 * b"[", "", "bad"),
]  # fmt: skip


@pytest.mark.parametrize(("why", "line", "reason", "record"), BROKEN, ids=[row[0] for row in BROKEN])
@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.zst"])
def test_a_broken_line_is_named(
    tmp_path: Path, why: str, line: bytes, reason: str, record: str | None, suffix: str
) -> None:
    path = tmp_path / f"talk.{suffix}"
    write_rows(tmp_path / "good.jsonl", map(numbered, range(3)))
    good = (tmp_path / "good.jsonl").read_bytes().splitlines(keepends=True)
    data = b"".join([*good[:2], b"\n", line + b"\n", good[2]])
    path.write_bytes(COMPRESSED["zst"](data) if suffix.endswith("zst") else data)

    dialogues = read(path)
    assert [next(dialogues).id, next(dialogues).id] == ["d0", "d1"], "what comes before is read"
    with pytest.raises(RecordError) as raised:
        next(dialogues)
    error = raised.value
    assert (error.path, error.line, error.record) == (str(path), 4, record)
    assert str(error).startswith(f"{path}, line 4{' (record bad)' if record else ''}: ")
    assert reason in str(error)
    assert isinstance(error, UserError)


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("damage", ["cut off", "no archive at all"])
def test_a_damaged_archive_is_named(tmp_path: Path, suffix: str, damage: str) -> None:
    data = COMPRESSED[suffix](b"".join(b'{"id": "%d", "a": %d}\n' % (n, n**9) for n in range(5000)))
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(data[: len(data) // 2] if damage == "cut off" else b"plain text\n" * 20)
    with pytest.raises(RecordError, match=f"a.jsonl.{suffix}, line "):
        list(read_rows(path, dict))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jsonl"):
        list(read(tmp_path / "nowhere.jsonl"))


def failing() -> Iterator[Dialogue]:
    yield numbered(1)
    yield numbered(2)
    raise RuntimeError("the source broke")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"talk.{suffix}"
    write_rows(path, [numbered(7)])
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="the source broke"):
        write_rows(path, failing())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        write_rows(tmp_path / "talk.jsonl", failing())
    assert list(tmp_path.iterdir()) == []


def test_the_target_is_whole_until_the_new_one_is(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    write_rows(path, [numbered(7)])

    def watching() -> Iterator[Dialogue]:
        for number in range(3):
            assert [d.id for d in read(path)] == ["d7"]
            yield numbered(number)

    assert write_rows(path, watching()) == 3
    assert [d.id for d in read(path)] == ["d0", "d1", "d2"]


def test_a_file_can_be_rewritten_from_itself(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    write_rows(path, map(numbered, range(4)))
    write_rows(path, (d for d in read(path) if d.id != "d2"))
    assert [d.id for d in read(path)] == ["d0", "d1", "d3"]


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_neither_reading_nor_writing_holds_the_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"talk.{suffix}"
    rng = random.Random(1)
    tracemalloc.start()
    try:
        write_rows(path, (numbered(number, rng.randbytes(10_000).hex()) for number in range(500)))
        assert sum(1 for _ in read(path)) == 500
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000, f"10,000,000 characters took {peak:,} bytes"


def test_reading_is_lazy(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\nbroken\n')
    assert next(read_rows(path, dict)) == {"a": 1}


class Standard:
    """Standard input and output as bytes, as the interpreter has them."""

    def __init__(self, data: bytes = b"") -> None:
        self.buffer = io.BytesIO(data)


def test_a_dash_is_standard_input_and_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    out = Standard()
    monkeypatch.setattr(sys, "stdout", out)
    assert write_rows("-", [numbered(1), numbered(2)]) == 2
    monkeypatch.setattr(sys, "stdin", Standard(out.buffer.getvalue() + b"broken\n"))
    dialogues = read("-")
    assert [next(dialogues).id, next(dialogues).id] == ["d1", "d2"]
    with pytest.raises(RecordError, match="-, line 3"):
        next(dialogues)
    assert list(tmp_path.iterdir()) == []


def test_rows_of_any_type(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert write_rows(path, ({"n": n} for n in range(3))) == 3
    assert list(read_rows(path, dict[str, int])) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert write_rows(path, []) == 0
    assert list(read_rows(path, dict)) == []
