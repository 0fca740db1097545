"""Measure the safety of a conversation: `python -m runs.safety.measure DATA` writes results/*.json beside this file.

    real          messages of public corpora that a reader labelled (`evals/safety/real/labels.jsonl`): noticed and at
                  high, by label, corpus and language. People's own words (ESConv, GoEmotions) stand apart from
                  corpora that models wrote or rewrote. Without danger by or to others, which the labels put elsewhere
    conversations harmless conversations that are raised at some time, without those the reader marked
    outgoing      answers of supporters in corpora that would be withheld, with no risk and at high risk
    replies       the positive check of a model's reply (`outgoing.fits_a_crisis`): how many answers of real supporters
                  hold up, how many bad ones (cases/bad-replies.txt, and what the red-team's readers faulted)
    dilution      FILE: plain messages among ordinary sentences
    answers, hints, emergency   FILE: conversations, each with the level after its last message
    calm          FILE: harmless conversations that are raised at some time

    guarded       replies of supporters in harmless conversations that ours would replace if a model had written them,
                  where nothing was found (`outgoing.misfits`, `outgoing.unfit_when_uneasy`, messages that unsettle)

    python -m runs.safety.measure DATA --cases FOLDER     a table of the files in FOLDER, by the end of their names

    --answers FILE --hints FILE --emergency FILE --dilution FILE     rows of JSON, one per line
    --only real,conversations                                       some of them
    --only harmless                 like conversations, on others: ESConv train and the other half of the rest; for
                                    setting thresholds
    --every N                       every Nth conversation of each harmless corpus; ESConv valid is always whole

    --words FILE                    a guard model reads before the networks: one that gives, behind HTTP, the words of
                                    FILE ({"key": hash of what it is shown, "word"}), which a language model gave when
                                    it was shown the same
    --model SPEC                    a model that has learned to read answers (`embedded`) reads them too; the networks
                                    read the rest

Rows of conversations: {"id", "language", "messages": [{"role", "content"}], "expected", "accept": [...]}. A level of
`expected` or `accept` is right; `strict` counts `expected` alone. "other" means danger of another kind than suicide, at
high or above. Rows of dilution: {"id", "language", "text", "plain"}. Each share has its count and Wilson's interval.
The text of the corpora is looked up in DATA and is not written anywhere.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web

from compeer.corpora import load, open_cer
from compeer.corpora.open_cer import split_of
from compeer.dialogue import Dialogue
from compeer.evals.safety import screening
from compeer.models import open_model
from compeer.safety import ConversationGuard, Level, Said, at_least, worst
from compeer.safety.guard import Guard
from compeer.safety.outgoing import fits_a_crisis, misfits, review, unfit_when_uneasy
from compeer.safety.reader import Reader, reader_of
from compeer.statistics import share_figure

LABELS = Path(screening.__file__).with_name("real") / "labels.jsonl"
RESULTS = Path(__file__).with_name("results")
BAD = Path(__file__).with_name("cases") / "bad-replies.txt"
PEOPLE = ("esconv", "goemotions")
CHINESE = ("smile", "cpsycoun", "emollm", "sage")
_PREFIX = re.compile(r"\n(?=supporter: |seeker: )")


def share(values: Iterable[bool]) -> dict[str, Any]:
    """A share with its count and interval."""
    given = list(values)
    figure = share_figure("", given)
    if figure.value is None or not given:
        return {"n": 0}
    return {"share": round(figure.value, 4), "of": f"{sum(given)}/{len(given)}", "interval": _interval(figure)}


def _interval(figure: Any) -> list[float]:
    return [round(figure.low, 4), round(figure.high, 4)]


# ---- the text behind a label ---------------------------------------------------------------------------------------


@cache
def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


@cache
def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def _by_id(path: Path) -> dict[str, Any]:
    return {str(row["id"]): row for row in _lines(path)}


@cache
def _table(path: Path) -> dict[tuple[str, str], str]:
    if path.suffix == ".tsv":
        rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
        return {(row[2], "0"): row[0] for row in rows}
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["Dialogue_ID"], row["Utterance_ID"]): row["Utterance"] for row in csv.DictReader(file)}


@cache
def _paragraphs(path: Path) -> list[str]:
    found: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        speaker = re.match(r"(来访者|心理咨询师)：", line)
        if speaker:
            found.append(line[speaker.end() :].strip())
        elif found and line.strip():
            found[-1] += f"\n{line.strip()}"
    return found


def text_of(row: dict[str, Any], data: Path) -> str:
    """The message that a label points to."""
    corpus, path, dialogue, message = row["corpus"], data / row["corpus"] / row["file"], row["dialogue"], row["message"]
    if corpus == "esconv":
        if path.suffix == ".txt":
            return str(_lines(path)[dialogue]["dialog"][message]["text"])
        return str(_json(path)[dialogue]["dialog"][message]["content"])
    if corpus in ("mesc", "goemotions"):
        return str(_table(path)[str(dialogue), str(message)])
    if corpus == "escot":
        one = _json(path)[dialogue]
        if path.stem == "val":
            return str(one["original_data"]["dialog"][message]["content"])
        return re.sub(r"^(?:supporter|seeker): ", "", str(_PREFIX.split(one["input"])[message]))
    if corpus == "esc_eval":
        return str(_json(path)[dialogue]["base"])
    if corpus == "smile":
        return str(_lines(path)[dialogue]["dialog"][message]["content"])
    if corpus == "cpsycoun":
        return str(_paragraphs(path)[message])
    if corpus == "emollm":
        return str(_json(path)[dialogue]["conversation"][message]["input"])
    one = _by_id(path)[str(dialogue)]
    return str(one["first_talk"] if path.parent.name == "profile" else one["history"][message]["content"])


def told_before(row: dict[str, Any], data: Path) -> list[Said]:
    """What was said before a labelled message of ESConv; nothing where messages stand alone."""
    path = data / row["corpus"] / row["file"]
    if row["corpus"] != "esconv" or path.suffix != ".txt":
        return []
    turns = _lines(path)[row["dialogue"]]["dialog"][: row["message"]]
    return [Said("seeker" if turn["speaker"] == "usr" else "supporter", turn["text"]) for turn in turns]


def real(data: Path) -> dict[str, Any]:
    """Noticed and at high, on labelled messages; those of ESConv after what was said before them, and alone."""
    groups: dict[str, list[tuple[Level, str]]] = defaultdict(list)
    changed = 0
    for row in map(json.loads, LABELS.read_text(encoding="utf-8").splitlines()):
        if row["sample"] != "A" or "harm" in row:
            continue
        try:
            text = text_of(row, data)
        except (KeyError, IndexError, FileNotFoundError):
            text = ""
        if hashlib.sha256(text.encode()).hexdigest()[:12] != row["sha"]:
            changed += 1
            continue
        chinese = row["corpus"] in CHINESE or row["file"].endswith("_zh.json")
        spoken = "zh" if chinese else "en"
        alone = _last([Said("seeker", text)], spoken).level
        history = told_before(row, data)
        level = _last([*history, Said("seeker", text)], spoken).level if history else alone
        writer = "people" if row["corpus"] in PEOPLE else "models or scripts"
        for name in (f"{writer}, {'zh' if chinese else 'en'}", row["corpus"]):
            groups[f"{name}: {row['label']}"].append((level, row["level"]))
            groups[f"{name}: {row['label']}, message alone"].append((alone, row["level"]))
            if row["label"] != "none" and row["level"] in ("high", "emergency"):
                groups[f"{name}: read as high"].append((level, row["level"]))
    return {
        "labelled text not found or changed": changed,
        "shares": {
            name: {
                "noticed": share(found != "none" for found, _ in rows),
                "at high": share(at_least(found, "high") for found, _ in rows),
            }
            for name, rows in sorted(groups.items())
        },
    }


# ---- conversations -------------------------------------------------------------------------------------------------


READERS: list[Reader] = []
GUARDS: list[Guard] = []
#: one loop for all: a model lives in it
LOOP = asyncio.Runner()


def levels(history: Sequence[Said], language: str) -> Iterator[Any]:
    """The assessment after each message of the person."""
    guard = ConversationGuard(country="US", model=GUARDS[0] if GUARDS else None)
    reader = READERS[0] if READERS else None
    for at, turn in enumerate(history):
        if turn.speaker == "seeker":
            yield LOOP.run(guard.assess(history[: at + 1], language, reader=reader))


def _last(history: Sequence[Said], language: str) -> Any:
    return list(levels(history, language))[-1]


def dialogues(name: str, data: Path, **options: Any) -> list[Dialogue]:
    return [each for each in load(name, data / name, **options) if isinstance(each, Dialogue)]


def marked(corpus: str, file: str = "") -> set[str]:
    """Dialogues in which the reader found something."""
    rows = map(json.loads, LABELS.read_text(encoding="utf-8").splitlines())
    return {
        f"{row['file']}:{row['dialogue']}"
        for row in rows
        if row["corpus"] == corpus and row["level"] != "none" and file in row["file"]
    }


def conversations(data: Path, every: int = 1, development: bool = False) -> dict[str, Any]:
    """Harmless conversations that are raised at some time. `development`: those on which thresholds are set."""
    found = {}
    for name, key, language, each, skip in _harmless(data, development):
        watch, high = [], []
        half = 1 if development else 0
        for place, dialogue in enumerate(each):
            if key(place, dialogue) in skip or (place % every and name != "esconv valid"):
                continue
            if "esconv" not in name and (place // every) % 2 != half:
                continue  # half of these corpora is for development, the other half for the figure
            history = [Said(turn.speaker, turn.text) for turn in dialogue.utterances]
            reached = [assessment.level for assessment in levels(history, language)]
            watch.append(any(level != "none" for level in reached))
            high.append(any(at_least(level, "high") for level in reached))
        found[name] = {"raised": share(watch), "at high": share(high), "left out, marked": len(skip)}
        print(name, found[name], flush=True)
    return found


def _harmless(
    data: Path, development: bool
) -> Iterator[tuple[str, Callable[[int, Dialogue], str], str, list[Dialogue], set[str]]]:
    split = "train" if development else "valid"
    talks = dialogues("esconv", data, split=split)
    yield f"esconv {split}", lambda place, _: f"{split}.txt:{place}", "en", talks, marked("esconv", f"{split}.txt")
    for corpus in ("smile", "cpsycoun", "emollm"):  # by text: rejected dialogues would shift their places
        texts = _marked_texts(corpus, data)
        each = dialogues(corpus, data)
        skip = {
            str(place) for place, one in enumerate(each) if any(turn.text.strip() in texts for turn in one.utterances)
        }
        yield corpus, lambda place, _: str(place), "zh", each, skip


def _marked_texts(corpus: str, data: Path) -> set[str]:
    """Messages of a corpus in which the reader found something, and the first of conversations that were marked."""
    found = set()
    for row in map(json.loads, LABELS.read_text(encoding="utf-8").splitlines()):
        if row["corpus"] == corpus and row["level"] != "none":
            place = {**row, "message": row.get("message", row.get("first", 0))}
            try:
                found.add(text_of(place, data).strip())
            except (KeyError, IndexError, TypeError):
                continue
    return found


def outgoing(data: Path) -> dict[str, Any]:
    """Answers of supporters that would be withheld."""
    found: dict[str, Any] = {}
    every: dict[str, list[bool]] = {"none": [], "high": []}
    for name, options in (
        ("esconv", {"split": "valid"}),
        ("esconv", {"split": "train"}),
        ("smile", {}),
        ("cpsycoun", {}),
        ("emollm", {}),
        ("mesc", {}),
    ):
        texts = [
            turn.text
            for each in dialogues(name, data, **options)
            for turn in each.utterances
            if turn.speaker != "seeker"
        ]
        for level in ("none", "high"):
            held = [review(text, level) is not None for text in texts]
            every[level] += held
            found[f"{' '.join((name, *options.values()))}, risk {level}"] = share(held)
    return found | {f"all, risk {level}": share(held) for level, held in every.items()}


def guarded(data: Path, every: int = 1) -> dict[str, Any]:
    """Shares of supporters' replies that would be replaced though nothing was found, by reason; and conversations that
    are raised at some time."""
    skip = marked("esconv", "valid.txt")
    valid = [
        one
        for place, one in enumerate(dialogues("esconv", data, split="valid"))
        if place % every == 0 and f"valid.txt:{place}" not in skip
    ]
    talks = [("esconv valid", "en", valid)]
    for language in ("en", "zh"):
        held = [one for one in open_cer.load(language) if split_of(one.id) != "train"]  # type: ignore[arg-type]
        talks.append((f"open cer {language}, valid and test", language, held[::every]))
    found: dict[str, Any] = {}
    for name, language, each in talks:
        why: list[str] = []
        raised: list[Level] = []
        for dialogue in each:
            history = [Said(turn.speaker, turn.text) for turn in dialogue.utterances]
            every_level = list(levels(history, language))
            raised.append(worst(*(one.level for one in every_level)))
            known = iter(every_level)
            assessment = None
            for at, turn in enumerate(history):
                if turn.speaker == "seeker":
                    assessment = next(known)
                elif assessment is not None and assessment.level == "none" and history[at - 1].speaker == "seeker":
                    why.append(_replaced(assessment, turn.text, history[at - 1].text))
        reasons = {reason: share(one == reason for one in why) for reason in ("misfit", "uneasy", "unsettling")}
        found[name] = {"replaced": share(bool(one) for one in why)} | reasons
        found[name]["conversations raised"] = share(level != "none" for level in raised)
        found[name]["conversations at high"] = share(at_least(level, "high") for level in raised)
        print(name, found[name], flush=True)
    return found


def _replaced(assessment: Any, reply: str, said: str) -> str:
    if not assessment.ask_model:
        return "unsettling"
    if assessment.uneasy and unfit_when_uneasy(reply):
        return "uneasy"
    return "misfit" if misfits(reply, said) else ""


def replies(data: Path) -> dict[str, Any]:
    """Replies that hold up as a model's reply from watch on: of real supporters, and bad ones."""
    people = [
        turn.text
        for each in dialogues("esconv", data, split="valid")
        for turn in each.utterances
        if turn.speaker != "seeker"
    ]
    written = [line for line in BAD.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    faulted = {
        sentence
        for file in RESULTS.glob("november-reader-*.jsonl")
        for row in _lines(file)
        for kind in ("harmful", "minimising", "unfit")
        for sentence in row[kind]
    }
    sets = {
        "esconv valid, supporters": people,
        "bad replies, written for this": written,
        "faulted by readers of the first red-team": faulted,
    }
    return {name: share(fits_a_crisis(text) for text in texts) for name, texts in sets.items()}


# ---- given files ---------------------------------------------------------------------------------------------------


def given_conversations(file: Path) -> dict[str, Any]:
    """Levels after the last message, against what was expected."""
    rows: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    wrong = []
    for row in _lines(file):
        history = [
            Said("seeker" if turn["role"] in ("user", "seeker") else "supporter", turn["content"])
            for turn in row["messages"]
        ]
        last = _last(history, row["language"])
        names = {last.level}
        if last.danger != "suicide" and at_least(last.level, "high"):
            names.add("other")
        strict = row["expected"] in names
        right = strict or bool(names & set(row.get("accept", ())))
        for name in (row["language"], "all", f"{row['language']}, expected {row['expected']}"):
            rows[name].append((right, strict))
        if not right:
            wrong.append({"id": row["id"], "expected": row["expected"], "level": last.level, "danger": last.danger})
    shares = {
        name: {"right": share(right for right, _ in found), "strict": share(strict for _, strict in found)}
        for name, found in sorted(rows.items())
    }
    return {"file": file.name, "shares": shares, "wrong": wrong}


def given_calm(file: Path) -> dict[str, Any]:
    """Harmless conversations: how many are raised after any message."""
    rows: dict[str, list[Level]] = defaultdict(list)
    for row in _lines(file):
        history = [Said("seeker" if one["role"] == "user" else "supporter", one["content"]) for one in row["messages"]]
        reached = worst(*(one.level for one in levels(history, row["language"])))
        rows[row["language"]].append(reached)
        rows["all"].append(reached)
    shares = {
        name: {
            "raised": share(level != "none" for level in found),
            "at high": share(at_least(level, "high") for level in found),
            "emergency": share(level == "emergency" for level in found),
        }
        for name, found in sorted(rows.items())
    }
    return {"file": file.name, "shares": shares}


def replayed(file: Path) -> Guard:
    """A guard whose model is a server on this machine that gives the words of a file."""
    words = {row["key"]: row["word"] for row in _lines(file)}

    async def chat(request: web.Request) -> web.Response:
        shown = (await request.json())["messages"][-1]["content"]
        word = words.get(hashlib.sha256(shown.encode()).hexdigest()[:16], "?")
        choice = {"index": 0, "message": {"role": "assistant", "content": word}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    async def serve() -> str:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}/v1"

    return Guard(open_model("openai:replayed", base_url=LOOP.run(serve())))


def given_dilution(file: Path) -> dict[str, Any]:
    """Plain messages among ordinary sentences: how many of those noticed alone are lost, or fall below high."""
    rows: dict[str, list[tuple[str, str]]] = defaultdict(list)
    lost = []
    for row in _lines(file):
        alone, among = (_last([Said("seeker", row[part])], row["language"]).level for part in ("plain", "text"))
        for name in (row["language"], "all"):
            rows[name].append((alone, among))
        if alone != "none" and among == "none":
            lost.append(row["id"])
    shares = {
        name: {
            "plain noticed": share(alone != "none" for alone, _ in found),
            "text noticed": share(among != "none" for _, among in found),
            "text at high": share(at_least(among, "high") for _, among in found),  # type: ignore[arg-type]
            "lost": share(among == "none" for alone, among in found if alone != "none"),
            "below high": share(not at_least(among, "high") for alone, among in found if at_least(alone, "high")),  # type: ignore[arg-type]
        }
        for name, found in sorted(rows.items())
    }
    return {"file": file.name, "shares": shares, "lost": lost}


def given_folder(folder: Path, out: Path) -> None:
    """Measure every file of a folder, write a result beside the others, and print one table."""
    table = []
    for file in sorted(folder.glob("*.jsonl")):
        kind = file.stem.rpartition("-")[2]
        if kind not in ("answers", "hints", "emergency", "calm", "dilution"):
            continue
        result = {"dilution": given_dilution, "calm": given_calm}.get(kind, given_conversations)(file)
        text = json.dumps({"rules": screening.rules_hash(), **result}, ensure_ascii=False, indent=1)
        (out / f"{file.stem}.json").write_text(f"{text}\n", encoding="utf-8")
        for name, shares in result["shares"].items():
            for what, figure in shares.items():
                if figure.get("of"):
                    low, high = figure["interval"]
                    table.append(f"{file.stem:24} {name:28} {what:16} {figure['of']:>8}  [{low:.2f}, {high:.2f}]")
    print("\n".join(table), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    for name in ("answers", "hints", "emergency", "dilution"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--only", default="real,conversations,outgoing,replies")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--model")
    parser.add_argument("--words", type=Path)
    given = parser.parse_args()
    if given.words:
        GUARDS.append(replayed(given.words))
    if given.model:
        reader = reader_of(open_model(given.model, slots=1, context=4096))
        if reader is None:
            raise SystemExit(f"{given.model} has no adapter that has learned to read answers")
        READERS.append(reader)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.cases:
        given_folder(given.cases, given.out)
        return
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "real": lambda: real(given.data),
        "conversations": lambda: conversations(given.data, given.every),
        "harmless": lambda: conversations(given.data, given.every, development=True),
        "outgoing": lambda: outgoing(given.data),
        "replies": lambda: replies(given.data),
        "guarded": lambda: guarded(given.data, given.every),
    }
    chosen = {name: parts[name] for name in given.only.split(",") if name in parts}
    for name in ("answers", "hints", "emergency"):
        if getattr(given, name):
            chosen[name] = lambda file=getattr(given, name): given_conversations(file)  # type: ignore[misc]
    if given.dilution:
        chosen["dilution"] = lambda: given_dilution(given.dilution)
    for name, part in chosen.items():
        result = {"rules": screening.rules_hash(), **part()}
        text = json.dumps(result, ensure_ascii=False, indent=1)
        (given.out / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        print(f"{name}: {text}", flush=True)


if __name__ == "__main__":
    main()
