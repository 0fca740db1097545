"""Rows for the reader of conversations: `python -m runs.safety.reader_rows FOLDER` writes train-*.jsonl and dev.jsonl.

Row: {"id", "language", "messages": [{"role", "content"}, ..., the person's last], "level", "source"}. Levels are those
of `compeer.safety.reader`. Sources:

    examples/reader_*.txt            conversations written for this, one per line, labelled at several messages;
                                     some with several endings
    examples/reader_labels.tsv       single messages of the other examples, each with a level (file, line, level)
    examples/conversations_en.tsv    messages of one person without replies
    cases/*.jsonl                    sets that were opened in November 2026

A fifth of the written conversations and of the second set, and half of the third (by hash of the first message, so that
versions of one story stay together), and all of the sixth and the seventh set, whose authors wrote nothing else, go to
dev.jsonl, on which thresholds are set; so do `reader_*_calm_c.txt`, harmless conversations by two further authors.
Nothing is read from any corpus.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LEVEL = {"N": "none", "W": "watch", "H": "high", "E": "emergency", "O": "other danger"}
_MARK = re.compile(r"\s*\{([NWHEO])\}\s*$")
#: opened sets by authors who wrote nothing that is learned from: what is measured on them is not flattered by style
OTHER_AUTHORS = ("sixth", "seventh", "reader_en_calm_c", "reader_zh_calm_c")
#: what stands between messages of a person that were written without replies
_NODS = ("I see.", "Go on, I'm listening.", "Mm. Tell me more.")


def _messages(texts: list[str]) -> list[dict[str, str]]:
    return [{"role": "user" if at % 2 == 0 else "assistant", "content": text} for at, text in enumerate(texts)]


def _row(name: str, language: str, messages: list[dict[str, str]], level: str, source: str) -> dict[str, Any]:
    return {"id": name, "language": language, "messages": messages, "level": level, "source": source}


def written() -> Iterator[dict[str, Any]]:
    """Conversations of reader_*.txt, cut after each message that has a level."""
    for file in sorted((HERE / "examples").glob("reader_*.txt")):
        language = "zh" if "zh" in file.stem else "en"
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            *shared, last = line.split(" || ")
            for way, ending in enumerate(last.split(" ## ")):
                yield from _cut(f"{file.stem}-{number:03d}", language, [*shared, ending], way)


def _cut(name: str, language: str, parts: list[str], way: int) -> Iterator[dict[str, Any]]:
    """One conversation after each message that has a level; of several endings the shared beginning once."""
    texts: list[str] = []
    for part in parts:
        mark = _MARK.search(part)
        texts.append(_MARK.sub("", part).strip())
        if mark and len(texts) % 2 == 0:
            raise SystemExit(f"{name}: a level stands at a supporter's message")
        if mark and (not way or len(texts) == len(parts)):
            ending = f"-{way}" if way else ""
            yield _row(f"{name}-{len(texts)}{ending}", language, _messages(texts), LEVEL[mark[1]], "written")
    if not _MARK.search(parts[-1]) or len(texts) % 2 == 0:
        raise SystemExit(f"{name}: no level at the last message")


def single() -> Iterator[dict[str, Any]]:
    """Examples of one message, with the level that was read."""
    lines = (HERE / "examples" / "reader_labels.tsv").read_text(encoding="utf-8").splitlines()
    for file, place, level in (line.split("\t") for line in lines):
        text = (
            (HERE / "examples" / f"{file}.tsv").read_text(encoding="utf-8").splitlines()[int(place)].split("\t", 1)[1]
        )
        yield _row(f"{file}-{place}", file[:2], _messages([text]), LEVEL[level], "single")


def monologues() -> Iterator[dict[str, Any]]:
    """Messages of one person: hints that add up, and calm ones; calm ones also cut in the middle."""
    for number, line in enumerate(
        (HERE / "examples" / "conversations_en.tsv").read_text(encoding="utf-8").splitlines()
    ):
        kind, text = line.split("\t", 1)
        parts = [part.strip() for part in text.split(" | ")]
        for end in (len(parts), 2) if kind == "calm" else (len(parts),):
            texts: list[str] = []
            for at, part in enumerate(parts[:end]):
                texts += [part] if at == 0 else [_NODS[(number + at) % 3], part]
            yield _row(
                f"monologue-{number:02d}-{end}", "en", _messages(texts), "high" if kind == "hint" else "none", kind
            )


def opened() -> Iterator[dict[str, Any]]:
    """The sets that were opened, with the level that was expected; harmless ones also cut earlier."""
    for file in sorted((HERE / "cases").glob("*.jsonl")):
        if file.stem == "redteam":
            continue
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            if "text" in row:
                messages, level = _messages([row["text"]]), "high"
            else:
                messages, level = row["messages"], row["expected"].replace("other", "other danger")
            yield _row(f"{file.stem}-{row['id']}", row["language"], messages, level, file.stem)
            if file.stem.endswith("hints") and level == "none" and len(messages) > 6:
                yield _row(f"{file.stem}-{row['id']}-5", row["language"], messages[:5], level, file.stem)


def held_out(row: dict[str, Any]) -> bool:
    """Whether thresholds are set on this row, and nothing is learned from it."""
    if row["source"].startswith(OTHER_AUTHORS) or row["id"].startswith(OTHER_AUTHORS):
        return True
    if row["source"] != "written" and not row["source"].startswith(("second", "third")):
        return False
    first = row["messages"][0]["content"].lower().rstrip("!.… ")
    return hashlib.sha256(first.encode()).digest()[0] % (2 if row["source"].startswith("third") else 5) == 0


def _new(row: dict[str, Any], known: dict[str, str]) -> bool:
    """Whether these messages were not met before; two levels for the same messages are an error."""
    text = json.dumps(row["messages"], ensure_ascii=False)
    if known.setdefault(text, row["level"]) != row["level"]:
        raise SystemExit(f"{row['id']}: {row['level']} here, {known[text]} before")
    first, known[text + "\0"] = text + "\0" not in known, ""
    return first


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"written": written(), "single": single(), "monologues": monologues(), "opened": opened()}
    dev: list[dict[str, Any]] = []
    known: dict[str, str] = {}
    for name, rows in parts.items():
        every = [row for row in rows if _new(row, known)]
        train = [row for row in every if not held_out(row)]
        dev += [row for row in every if held_out(row)]
        _write(folder / f"train-{name}.jsonl", train)
        print(name, len(train), Counter((row["language"], row["level"]) for row in train))
    _write(folder / "dev.jsonl", dev)
    print("dev", len(dev), Counter((row["language"], row["level"]) for row in dev))


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
