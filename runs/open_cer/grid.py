"""The plan of open CER's second part: which conversation is written for which cell.

    python -m runs.open_cer.grid          writes grid/LETTER.tsv, a part per author, and counts.md

A cell is a situation of life, a kind of person, a mood, a way of typing, a course of the conversation and its number
of replies. Cells are drawn by seed so that no two conversations of a language share situation and course, and every
value is used about equally often. Authors write a cell on purpose and may bend what does not fit together.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).parent / "grid"

SITUATIONS = (
    "work: too much of it", "work: a mistake with consequences", "work: a boss or colleague",
    "work: laid off or quitting",
    "job search", "first job or new place", "own small business", "money and debt", "rent, flatmates, neighbours",
    "moving away or back home", "school: marks and exams", "school: classmates", "university or training: doubts",
    "parents: expectations", "parents: growing old or ill", "siblings", "own small children", "own teenager",
    "wanting or not wanting children", "pregnancy or a birth", "falling in love", "a couple's quarrel", "break-up",
    "divorce and its arrangements", "long distance", "being single", "friendship cooling", "a friend in trouble",
    "loneliness in a crowd", "new in a country", "own illness or pain", "waiting for a result", "sleep",
    "body and looks", "food and eating", "drinking, smoking, phone, games", "a death long ago", "a death just now",
    "a pet", "an accident or a scare", "being treated unfairly", "shame about something done",
    "faith, meaning, getting older",
    "sport, music, a hobby", "an exam, a performance, a talk ahead", "a celebration or family visit",
    "caring for someone at home",
    "retirement or empty nest", "coming out, identity", "news and the state of the world",
)  # fmt: skip
PERSONS = (
    "teenager, 15", "student, 19", "student, 23", "apprentice", "nurse", "driver or courier", "teacher", "programmer",
    "shop or kitchen worker", "office worker, 30s", "manager, 40s", "builder or mechanic", "farmer or gardener",
    "parent at home", "single parent", "carer of a parent", "jobless, 50s", "retired", "grandparent", "migrant worker",
    "soldier or guard", "freelancer", "researcher", "someone with a disability", "newly married", "widowed",
    "shy person",
    "talkative person", "sceptic who distrusts chats", "second-language speaker",
)  # fmt: skip
MOODS = (
    "flat and tired", "angry", "ashamed", "worried, circling", "sad but composed", "in tears", "ironic, joking it away",
    "proud and unsure", "happy", "relieved", "confused, does not know what it is", "hurt", "jealous", "bored, testing",
    "guilty", "hopeful", "numb", "grateful", "impatient", "calm, thinking aloud",
)  # fmt: skip
TYPING = (
    "fragments, no capitals", "one-word answers", "a wall of text", "typos, fast", "careful sentences",
    "several short messages in a row", "slang and abbreviations", "emoji here and there", "formal, polite",
    "no punctuation", "asks back", "trails off with dots",
)  # fmt: skip
COURSES = (
    ("first words",), ("first words", "middle"), ("middle", "setback"), ("middle", "suggestion declined"),
    ("first words", "misunderstanding corrected"), ("practical question",), ("practical question", "thanks"),
    ("middle", "nearly solved"), ("nearly solved", "thanks", "goodbye"), ("good news",), ("good news", "middle"),
    ("small talk", "first words"), ("question to the supporter",), ("question to the supporter", "middle"),
    ("anger at the supporter", "middle"), ("off topic", "middle"), ("first words", "middle", "practical question"),
    ("middle", "setback", "nearly solved"), ("first words", "suggestion declined", "middle", "thanks"),
    ("thanks", "goodbye"), ("middle",), ("first words", "middle", "misunderstanding corrected", "nearly solved"),
    ("setback", "middle"), ("first words", "good news"), ("goodbye",), ("middle", "off topic", "practical question"),
)  # fmt: skip

#: letters of the authors, language, conversations each
PARTS = (("l", "en", 116), ("m", "en", 116), ("f", "zh", 96), ("g", "zh", 96))


def evenly(values: tuple[object, ...], count: int, rng: random.Random) -> list[object]:
    """So many values, each about equally often, in random order."""
    drawn = [values[place % len(values)] for place in range(count)]
    rng.shuffle(drawn)
    return drawn


def plan() -> list[tuple[str, str, str, str, str, str, str]]:
    rows = []
    for language in ("en", "zh"):
        parts = [(letter, count) for letter, one, count in PARTS if one == language]
        total = sum(count for _, count in parts)
        rng = random.Random(f"open-cer {language} 2")
        people, moods, typing = (evenly(values, total, rng) for values in (PERSONS, MOODS, TYPING))
        pairs: set[tuple[object, object]] = set()
        drawn = evenly(SITUATIONS, total, rng)
        cells = []
        for situation, person, mood, typed in zip(drawn, people, moods, typing, strict=True):
            course = rng.choice([one for one in COURSES if (situation, one) not in pairs])
            pairs.add((situation, course))
            cells.append((situation, person, mood, typed, " > ".join(course), str(len(course) + rng.choice((0, 0, 1)))))
        at = 0
        for letter, count in parts:
            for number in range(1, count + 1):
                rows.append((f"{language}-{letter}-{number:03d}", *map(str, cells[at])))
                at += 1
    return rows  # type: ignore[return-value]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    rows = plan()
    head = "id\tsituation\tperson\tmood\ttyping\tcourse\treplies\n"
    for letter, language, _ in PARTS:
        part = [row for row in rows if row[0].startswith(f"{language}-{letter}-")]
        (FOLDER / f"{language}-{letter}.tsv").write_text(head + "".join("\t".join(row) + "\n" for row in part), "utf-8")
    lines = ["# The grid in counts", "", "Conversations planned for the second part, by value.", ""]
    for column, name in enumerate(("situation", "person", "mood", "typing"), start=1):
        lines += [f"## {name}", "", "| value | en | zh |", "|---|---|---|"]
        counts = {one: Counter(row[column] for row in rows if row[0].startswith(one)) for one in ("en", "zh")}
        lines += [
            f"| {value} | {counts['en'][value]} | {counts['zh'][value]} |"
            for value in sorted(set().union(*counts.values()))
        ]
        lines.append("")
    kinds = {
        one: Counter(kind for row in rows if row[0].startswith(one) for kind in row[5].split(" > "))
        for one in ("en", "zh")
    }
    lines += ["## kinds of moment", "", "| value | en | zh |", "|---|---|---|"]
    lines += [f"| {value} | {kinds['en'][value]} | {kinds['zh'][value]} |" for value in sorted(kinds["en"])]
    (FOLDER / "counts.md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
