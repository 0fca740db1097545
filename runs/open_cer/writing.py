"""Authors' files to rows of open CER, with the checks that an author wants while writing.

    python -m runs.open_cer.writing check FILE…            what is wrong, line by line; counts and openings
    python -m runs.open_cer.writing rows FILE… --out OUT   conversations as JSON lines (`corpora/open_cer`)
    python -m runs.open_cer.writing answers FILE… --out OUT  answers to given moments: corrections and contrasts
    python -m runs.open_cer.writing labels                 the names of stages, emotions and strategies

An author writes plain text, one field a line, because JSON costs attention and quotes. A conversation:

    == en-l-01
    situation: night-shift nurse, flatmate moved out without a word
    S: anyone there
    S: came home and her room is empty
    H: The flatmate moved out without telling this person. Why is not known yet.
    E: They are hurt and confused. "Empty" stands alone, and it is night.
    G: The story is not clear yet, so I ask one open question about what they found.
    L: exploration | confusion 3 | question
    R: You came home to an empty room. Was there a note, or anything?
    S: …

`P: FILE | what it shows` before a message of the seeker is a picture sent with it, from `corpora/open_cer/pictures`.
`S` is a message of the seeker, `H`, `E`, `G` are the three steps (history, emotion, strategy), `L` their labels and `R`
the reply. An emotion that can carry several sentiments takes the usual one unless `L` names it
(`surprise 3 positive`).

An answer to a moment that is already there begins with `== MOMENT-ID`, for a contrast `== MOMENT-ID strategy`; it has
`H`, `E`, `G`, `L` and `R`, and a contrast only `G` and `R`. `W:` says in a few words what was wrong with the model's
answer ("kept" where nothing was).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compeer.corpora.open_cer import FOLDER
from compeer.reasoning.ontology import EMOTIONS, STAGES, STRATEGIES, fits, sentiment_of, words

FIELDS = ("situation", "P", "S", "H", "E", "G", "L", "R", "W")
PICTURES = FOLDER / "pictures"
LONGEST = {"en": 60, "zh": 80}
THINKING = {"en": (25, 110), "zh": (30, 150)}


class Problem(Exception):
    """What is wrong with a line, and where."""


def blocks(path: Path) -> Iterator[tuple[str, int, list[tuple[str, str, int]]]]:
    """Name, line and fields of each block of a file."""
    name, begun, fields = "", 0, []  # type: str, int, list[tuple[str, str, int]]
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("== "):
            if name:
                yield name, begun, fields
            name, begun, fields = text[3:].strip(), number, []
            continue
        key, colon, value = text.partition(":")
        if not colon:
            key, colon, value = text.partition("：")
        if key not in FIELDS or not value.strip():
            raise Problem(f"{path.name}:{number}: expected one of {', '.join(FIELDS)} with a text, found {text[:60]!r}")
        fields.append((key, value.strip(), number))
    if name:
        yield name, begun, fields


def label_values(text: str, place: str) -> dict[str, Any]:
    parts = [part.strip() for part in re.split(r"[|｜]", text)]
    if len(parts) != 3:
        raise Problem(f"{place}: labels are 'stage | emotion intensity | strategy', found {text!r}")
    felt = parts[1].split()
    sentiment = None
    if felt and felt[-1] in ("positive", "negative", "neutral"):
        sentiment = felt.pop()
    if len(felt) < 2 or not felt[-1].isdigit() or not 1 <= int(felt[-1]) <= 5:
        raise Problem(f"{place}: an emotion and its intensity 1 to 5, found {parts[1]!r}")
    stage, emotion, strategy = STAGES.find(parts[0]), EMOTIONS.find(" ".join(felt[:-1])), STRATEGIES.find(parts[2])
    for value, found, kind in (
        (stage, parts[0], "stage"),
        (emotion, parts[1], "emotion"),
        (strategy, parts[2], "strategy"),
    ):
        if value is None:
            raise Problem(f"{place}: {found!r} is no {kind}; see `python -m runs.open_cer.writing labels`")
    assert stage and emotion and strategy
    sentiment = sentiment or sentiment_of(emotion.id)
    if not fits(emotion.id, sentiment):
        raise Problem(f"{place}: {emotion.id} cannot be {sentiment}")
    return {
        "stage": stage.id,
        "sentiment": sentiment,
        "emotion": emotion.id,
        "intensity": int(felt[-1]),
        "strategy": strategy.id,
    }


def language_of(name: str) -> str:
    found = re.search(r"(?:^|[/-])(en|zh)", name)
    if not found:
        raise Problem(f"{name}: a name begins with en or zh")
    return found[1]


def check_reply(text: str, language: str, place: str) -> None:
    if len(words(text)) > LONGEST[language]:
        raise Problem(f"{place}: the reply has {len(words(text))} words, at most {LONGEST[language]}")
    if len(re.findall("[?？]", text)) > 2:
        raise Problem(f"{place}: more than one question")
    if "<" in text and re.search(r"</?\w+>", text):
        raise Problem(f"{place}: markup in a reply")


def check_thinking(steps: dict[str, str], language: str, place: str) -> None:
    low, high = THINKING[language]
    length = len(words(" ".join(steps.values())))
    if not low <= length <= high:
        raise Problem(f"{place}: the thinking has {length} words, wanted are {low} to {high}")


def conversation(name: str, fields: list[tuple[str, str, int]], path: Path) -> dict[str, Any]:
    """A conversation as `corpora/open_cer` has it."""
    language = language_of(name)
    utterances: list[dict[str, Any]] = []
    situation, steps, label = "", {}, {}  # type: str, dict[str, str], dict[str, Any]
    picture: dict[str, Any] = {}
    for key, value, number in fields:
        place = f"{path.name}:{number}"
        if key == "situation":
            situation = value
        elif key == "S":
            if steps or label:
                raise Problem(f"{place}: a message before the reply to the one before")
            utterances.append({"speaker": "seeker", "text": value, **picture})
            picture = {}
        elif key == "P":
            file, _, seen = (part.strip() for part in value.partition("|"))
            if not (PICTURES / file).is_file() or not seen:
                raise Problem(f"{place}: 'FILE | what it shows', with a file of {PICTURES}, found {value!r}")
            picture = {"images": [f"{PICTURES.name}/{file}"], "seen": seen}
        elif key in "HEG":
            step = {"H": "history", "E": "emotion", "G": "strategy"}[key]
            if step in steps:
                raise Problem(f"{place}: {key} twice")
            steps[step] = value
        elif key == "L":
            label = label_values(value, place)
        elif key == "R":
            if len(steps) != 3 or not label:
                raise Problem(f"{place}: a reply needs H, E, G and L before it")
            check_reply(value, language, place)
            check_thinking(steps, language, place)
            utterances.append({"speaker": "supporter", "text": value, "reasoning": steps, **label})
            steps, label = {}, {}
    if not utterances or utterances[-1]["speaker"] != "supporter" or not situation:
        raise Problem(f"{path.name}: {name} needs a situation, and ends with a reply")
    return {"id": name, "language": language, "situation": situation, "utterances": utterances}


def answer(name: str, fields: list[tuple[str, str, int]], path: Path) -> dict[str, Any]:
    """A correction or a contrast: an answer to a moment that is there."""
    moment, _, pinned = name.partition(" ")
    language = language_of(moment)
    row: dict[str, Any] = {"of": moment}
    steps: dict[str, str] = {}
    place = path.name
    for key, value, number in fields:
        place = f"{path.name}:{number}"
        if key == "H":
            steps["history"] = value
        elif key == "E":
            steps["emotion"] = value
        elif key == "G":
            steps["strategy"] = value
        elif key == "L":
            row |= label_values(value, place)
        elif key == "R":
            check_reply(value, language, place)
            row["reply"] = value
        elif key == "W":
            row["wrong"] = value
        else:
            raise Problem(f"{place}: {key} does not belong into an answer")
    if pinned:
        strategy = STRATEGIES.find(pinned)
        if strategy is None or set(steps) != {"strategy"} or "reply" not in row:
            raise Problem(f"{place}: a contrast is '== MOMENT strategy' with G and R")
        return row | {"strategy": strategy.id, "strategy_step": steps["strategy"]}
    if len(steps) != 3 or "emotion" not in row or "reply" not in row:
        raise Problem(f"{place}: an answer has H, E, G, L and R")
    check_thinking(steps, language, place)
    return row | {f"{step}_step": text for step, text in steps.items()}


def read(paths: list[Path], kind: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows, and what is wrong. A file that cannot be read to its end gives what stands before."""
    rows, problems = [], []  # type: list[dict[str, Any]], list[str]
    for path in paths:
        try:
            for name, begun, fields in blocks(path):
                try:
                    rows.append((conversation if kind == "rows" else answer)(name, fields, path))
                except Problem as problem:
                    problems.append(f"{problem} (block at line {begun})")
        except Problem as problem:
            problems.append(str(problem))
    seen = Counter(
        (
            row.get("id")
            or (row["of"], row.get("strategy") if "strategy_step" in row and "history_step" not in row else "")
        )
        for row in rows
    )
    problems += [f"{name} stands {count} times" for name, count in seen.items() if count > 1]
    return rows, problems


def summary(rows: list[dict[str, Any]]) -> str:
    """What an author looks at: counts, strategies, openings that became a habit."""
    turns = [turn for row in rows for turn in row.get("utterances", [row]) if "strategy" in turn]
    replies = [turn.get("text") or turn.get("reply") or "" for turn in turns]
    lines = [f"{len(rows)} blocks, {len(turns)} answers"]
    for field in ("stage", "strategy", "emotion"):
        lines.append(
            f"  {field}: "
            + ", ".join(
                f"{name} {count}" for name, count in Counter(turn.get(field, "-") for turn in turns).most_common(12)
            )
        )
    openings = Counter(" ".join(words(reply)[:3]).lower() for reply in replies)
    lines.append("  openings: " + ", ".join(f"{name!r} {count}" for name, count in openings.most_common(6)))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("do", choices=["check", "rows", "answers", "labels"])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--answers", action="store_true", help="check: the files hold answers, not conversations")
    args = parser.parse_args()
    if args.do == "labels":
        for vocabulary in (STAGES, EMOTIONS, STRATEGIES):
            print(
                vocabulary.label
                + ": "
                + "; ".join(
                    f"{value.id} ({'/'.join(value.sentiments)})" if value.sentiments else value.id
                    for value in vocabulary
                )
            )
        return 0
    kind = "answers" if args.answers or args.do == "answers" else "rows"
    rows, problems = read(args.files, kind)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(summary(rows))
    if args.do != "check" and args.out and not problems:
        args.out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
