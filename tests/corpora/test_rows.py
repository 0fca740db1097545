"""Files as they come: broken in the middle, with a byte order mark, compressed, cut off."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import msgspec
import pytest

from compeer.corpora import CorpusError, Rejected
from compeer.corpora import reading as json_list
from compeer.corpora.reading import read


class Item(msgspec.Struct):
    id: int
    text: str = ""


def values(path: Any) -> list[int | str]:
    """Ids of the good rows, reasons of the bad ones."""
    return [r.reason if isinstance(r, Rejected) else r.value.id for r in read("test", path, Item)]


def test_lines(put: Any) -> None:
    path = put(
        "x.jsonl",
        b'\xef\xbb\xbf{"id": 1}\r\n\r\n{"id": 2, "text": \r\n{"id": "3"}\r\n{"id": 4, "text": "\xff"}\r\n{"id": 5}',
    )
    rows = list(read("test", path, Item))
    assert values(path)[0] == 1 and values(path)[-1] == 5
    bad = [r for r in rows if isinstance(r, Rejected)]
    assert [(r.record, r.line) for r in bad] == [("1", 3), ("2", 4), ("3", 5)]
    assert [r.reason for r in bad][1:] == ["Expected `int`, got `str` - at `$.id`", "not UTF-8"]
    last = rows[-1]
    assert not isinstance(last, Rejected) and (last.index, last.line) == (4, 6)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])  # elements across chunks of the file
def test_a_list_is_read_up_to_where_it_is_broken(put: Any, monkeypatch: Any, chunk: int) -> None:
    monkeypatch.setattr(json_list, "CHUNK", chunk)
    text = """\ufeff[
 {"id": 1, "text": "a [b] {c}, \\"d\\""},
 {"id": 3, "text": "ü 难"},
 {"id": 6}, 7, "eight",
 {"id": "9"},
 {"id": 10},
 {"id": 4, "text": tru},
 {"id": 11}
]"""
    rows = list(read("test", put("x.json", text), Item))
    good = [r.value.id for r in rows if not isinstance(r, Rejected)]
    assert good == [1, 3, 6, 10]  # and not 11
    bad = [(r.line, r.reason[:11]) for r in rows if isinstance(r, Rejected)]
    assert bad == [
        (4, "Expected `o"),
        (4, "Expected `o"),
        (5, "Expected `i"),
        (7, "broken JSON"),
    ]


def test_a_break_near_the_top_does_not_pull_in_the_whole_file(monkeypatch: Any) -> None:
    monkeypatch.setattr(json_list, "CHUNK", 100)
    monkeypatch.setattr(json_list, "LARGEST", 1000)
    rest = ", ".join(f'{{"id": {n}, "text": "ordinary"}}' for n in range(1000))
    file = io.BytesIO(f'[{{"id": -1, "text": oops}}, {rest}]'.encode())
    found = json_list.elements(file)
    assert "broken JSON" in str(next(found)[1])
    assert file.tell() < 3000
    assert list(found) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", []),
        ('[{"id": 1}', [1, "the list is not closed: the file ends too early"]),
        ('[{"id": 1}, {"id": 2, "te', [1, "nothing after it can be read"]),
        ('[{"id": 1} {"id": 2}]', [1, 2]),  # a comma short: nothing is lost by being lenient
        ('[{"id": 1, "text": "\\ud83d"}, {"id": 2}]', ["truncated", 2]),  # half a surrogate pair
    ],
)
def test_lists(put: Any, text: str, expected: list[Any]) -> None:
    found = values(put("x.json", text))
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        assert got == wanted or (isinstance(got, str) and wanted in got)


def test_a_list_with_bytes_that_are_no_utf8(put: Any) -> None:
    assert values(put("x.json", b'[{"id": 1, "text": "\xff"}, {"id": 2}]')) == ["not UTF-8", 2]


def test_nesting_without_end_is_one_bad_record(put: Any) -> None:
    deep = '{"id": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    found = values(put("x.json", f'[{deep}, {{"id": 2}}]'))
    assert len(found) == 1 and "nested too deeply" in str(found[0])
    assert values(put("x.jsonl", deep + '\n{"id": 2}\n'))[-1] == 2


def test_compressed(put: Any) -> None:
    packed = gzip.compress(json.dumps({"id": 1}).encode())
    assert values(put("x.jsonl.gz", packed)) == [1]
    with pytest.raises(CorpusError, match="cannot be read"):
        values(put("y.jsonl.gz", packed[:-9]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf \n ", "the file is empty"),
        ('{"id": 1}'.encode("utf-16"), "UTF-16"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    ],
)
def test_files_that_are_none(put: Any, content: bytes, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        values(put("x.json", content))
