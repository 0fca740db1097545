"""The counted parts of open CER's card, and the picture of its grid.

    python -m runs.open_cer.card          writes both into `corpora/open_cer`, after rows were added or edited

`README.md` is written by hand except between `<!-- NAME: counted -->` and `<!-- end -->`. There stand tables and ten
moments, made here from the files; `tests/corpora/test_open_cer.py` makes them again and compares.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from statistics import correlation, mean, quantiles
from typing import Any

from compeer.cer.item import QUESTIONS, Item, read_items
from compeer.corpora import open_cer
from compeer.corpora.open_cer import split_of
from compeer.plotting import ACCENT, INK, PAPER, QUIET, drawing, frame
from compeer.reasoning import STEPS, Reasoning
from compeer.reasoning.ontology import LANGUAGES, STAGES, STRATEGIES, words
from runs.open_cer.grid import COURSES, SITUATIONS, plan
from runs.open_cer.items import NUMBERS
from runs.supporter.rows import moments

CARD = open_cer.FOLDER / "README.md"
PICTURE = open_cer.FOLDER / "grid.png"
KINDS = tuple(dict.fromkeys(kind for course in COURSES for kind in course))
_NAMES = {"en": "English", "zh": "Chinese"}
_COUNTED = re.compile(r"(<!-- (\w+): counted -->\n).*?(<!-- end -->)", re.DOTALL)


@cache
def moments_in(language: str) -> tuple[Item, ...]:
    return tuple(moments(open_cer.load(language)))  # type: ignore[arg-type]


@cache
def contrasts_in(language: str) -> tuple[open_cer.Contrast, ...]:
    return tuple(open_cer.contrasts(language))  # type: ignore[arg-type]


def reasoning_of(item: Item) -> Reasoning:
    assert item.reference_reasoning is not None, item.id
    return item.reference_reasoning


def table(head: str, rows: Iterable[tuple[str, Callable[[str], str | int]]]) -> list[str]:
    """A row per entry, a column per language."""
    lines = [f"| {head} | English | Chinese |", "|---|---|---|"]
    for name, value in rows:
        shown = (value(language) for language in LANGUAGES)
        lines.append(f"| {name} | " + " | ".join(f"{one:,}" if isinstance(one, int) else one for one in shown) + " |")
    return [*lines, ""]


def sizes() -> list[str]:
    """How much there is, by part and by split."""

    def contrasted(language: str) -> Counter[str]:
        own = {item.id.removeprefix("open-cer/"): reasoning_of(item).label("strategy") for item in moments_in(language)}
        others = (one for one in contrasts_in(language) if one.strategy != own[one.of])
        return Counter(one.of for one in others)

    def rows(pattern: str) -> int:
        return sum(len(path.read_text("utf-8").splitlines()) for path in open_cer.FOLDER.glob(pattern))

    return table(
        "",
        [
            ("conversations", lambda language: rows(f"{language}-?.jsonl")),
            ("single moments", lambda language: rows(f"{language}[0-9].jsonl")),
            ("supporter turns with three-step reasoning", lambda language: len(moments_in(language))),
            *(
                (
                    f"of these for {split}",
                    lambda language, split=split: sum(split_of(one.dialogue) == split for one in moments_in(language)),
                )
                for split in ("train", "valid", "test")
            ),
            (
                "answers of a model, mended by an author (corrections)",
                lambda language: sum(1 for _ in open_cer.corrections(language)),  # type: ignore[arg-type]
            ),
            ("contrasted answers under other strategies", lambda language: len(contrasts_in(language))),
            (
                "of these read by a second reader",
                lambda language: sum(bool(one.second_reader) for one in contrasts_in(language)),
            ),
            (
                "moments that have three of them",
                lambda language: sum(count >= 3 for count in contrasted(language).values()),
            ),
            ("conversations with a picture", lambda language: rows(f"pictures-{language}.jsonl")),
            ("moments of crisis, kept apart", lambda language: rows(f"crisis-{language}[0-9].jsonl")),
        ],
    )


def labels() -> list[str]:
    """Turns by stage, strategy, intensity and emotion."""
    lines = []
    found = {
        name: {one: Counter(reasoning_of(item).label(name) for item in moments_in(one)) for one in LANGUAGES}
        for name in ("stage", "strategy", "intensity", "emotion")
    }
    common = sum(found["emotion"].values(), Counter())
    orders: dict[str, Iterable[Any]] = {
        "stage": STAGES.ids,
        "strategy": STRATEGIES.ids,
        "intensity": range(1, 6),
        "emotion": [name for name, _ in sorted(common.items(), key=lambda one: (-one[1], str(one[0])))],
    }
    for name, order in orders.items():
        counts = found[name]
        lines += table(
            name, ((str(value), lambda one, value=value, counts=counts: counts[one][value]) for value in order)
        )
    return lines


def lengths() -> list[str]:
    """Quartiles of the lengths, and how far into a conversation a moment lies."""

    def spread(measure: Callable[[Item], int]) -> Callable[[str], str]:
        def shown(language: str) -> str:
            found = [measure(item) for item in moments_in(language)]
            low, middle, high = quantiles(found, n=4)
            return f"{low:.0f} / {middle:.0f} / {high:.0f} (at most {max(found)})"

        return shown

    def thinking(item: Item) -> int:
        return sum(len(words(reasoning_of(item).text(step))) for step in STEPS)

    before = [("1", 1, 1), ("2 to 3", 2, 3), ("4 to 5", 4, 5), ("6 to 9", 6, 9), ("10 and more", 10, 999)]
    return table(
        "length, quartiles",
        [
            ("words of a reply", spread(lambda item: len(words(item.reference)))),
            ("words of the thinking", spread(thinking)),
            ("words of the person's last turn", spread(lambda item: len(words(item.history[-1].text)))),
        ],
    ) + table(
        "turns before the reply",
        (
            (name, lambda one, low=low, high=high: sum(low <= len(item.history) <= high for item in moments_in(one)))
            for name, low, high in before
        ),
    )


def planned() -> list[str]:
    """Conversations of the second part by situation, and their moments by kind, as planned."""
    rows = plan()
    situations = Counter((row[0][:2], row[1]) for row in rows)
    kinds = Counter((row[0][:2], kind) for row in rows for kind in row[5].split(" > "))
    return table(
        "situation", ((one, lambda language, one=one: situations[language, one]) for one in SITUATIONS)
    ) + table("kind of moment", ((one, lambda language, one=one: kinds[language, one]) for one in KINDS))


def attacks() -> list[str]:
    """Attack items by kind."""
    items = read_items(open_cer.FOLDER / "attacks.jsonl")
    kinds = Counter((item.trace["attack"], item.language) for item in items)
    names = dict.fromkeys(kind for kind, _ in kinds)
    return table("attack", ((kind, lambda one, kind=kind: kinds[kind, one]) for kind in names))


def rated() -> list[str]:
    """The rated replies: how many, how good, and how far the two readers agree."""
    known = {one: tuple(open_cer.rated(one)) for one in LANGUAGES}
    replies = {one: [reply for moment in known[one] for reply in moment.replies] for one in LANGUAGES}

    def share(one: str, holds: Callable[[open_cer.RatedReply], bool]) -> str:
        return f"{100 * sum(map(holds, replies[one])) / len(replies[one]):.0f} %"

    def apart(one: str) -> int:
        means = [[reply.mean for reply in moment.replies] for moment in known[one]]
        return sum(high - low >= 1 for values in means for high in values for low in values)

    def best(one: str) -> str:
        return f"{mean(max(reply.mean for reply in moment.replies) for moment in known[one]):.2f}"

    return table(
        "",
        [
            ("moments", lambda one: len(known[one])),
            ("replies", lambda one: len(replies[one])),
            ("mean rating", lambda one: f"{mean(reply.mean for reply in replies[one]):.2f}"),
            ("mean of the best reply to a moment", best),
            ("rated 3 or more", lambda one: share(one, lambda reply: reply.mean >= 3)),
            ("pairs apart", apart),
            (
                "readers within one point",
                lambda one: share(one, lambda reply: abs(reply.ratings[0] - reply.ratings[1]) <= 1),
            ),
            (
                "correlation of the readers",
                lambda one: f"{correlation(*zip(*(reply.ratings for reply in replies[one]), strict=True)):.2f}",
            ),
        ],
    )


def everyday() -> list[str]:
    """The everyday moments: how many, and how long a reply is beside the base's."""
    known = {one: tuple(open_cer.everyday(one)) for one in LANGUAGES}

    def length(one: str, texts: Callable[[open_cer.EverydayMoment], Iterable[str]]) -> str:
        return f"{mean(len(words(text)) for moment in known[one] for text in texts(moment)):.0f}"

    return table(
        "",
        [
            ("moments", lambda one: len(known[one])),
            ("of one message", lambda one: sum(len(moment.messages) == 1 for moment in known[one])),
            ("words of the author's reply", lambda one: length(one, lambda moment: (moment.reference,))),
            ("words of the base's replies", lambda one: length(one, lambda moment: moment.answers)),
        ],
    )


def items() -> list[str]:
    """The labelled items: sizes, agreement, balance and the shortcut table, from `items.json`."""
    told = json.loads(NUMBERS.read_text("utf-8"))
    sizes, spread, found = told["items"], told["balance"], told["agreement"]
    lines = [
        f"{sum(sizes.values()):,} items with four labels each: {sizes['train']:,} to train, {sizes['valid']} for "
        f"validation, {sizes['test']} for test. {told['labelled']:,} were labelled; the others are over what test and "
        "validation hold, or three labellers gave three answers.",
        "",
        "| question | labelled twice | agreement | kappa | AC1 | labels |",
        "|---|---|---|---|---|---|",
    ]
    for question, one in found.items():
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in spread[question].items())
        lines.append(
            f"| {question} | {one['items']:,} | {100 * one['percent']:.1f} % | {one['kappa']:.2f} | {one['ac1']:.2f} "
            f"| {shares} |"
        )
    lines += ["", "| candidate by | items |", "|---|---|"]
    lines += [f"| `{name}` | {count:,} |" for name, count in spread["generator"].items()]
    lines += ["", "| what is known | history | emotion | strategy | replies |", "|---|---|---|---|---|"]
    for name, by_question in told["shortcuts"].items():
        values = [f"{by_question[one]:.2f}" if one in by_question else "" for one in QUESTIONS]
        lines.append(f"| {name} | " + " | ".join(values) + " |")
    return [*lines, ""]


def shown() -> list[str]:
    """Ten moments in full, five per language: those whose names have the smallest hash, so nobody chose them."""
    lines = []
    for language in LANGUAGES:
        drawn = sorted(moments_in(language), key=lambda item: hashlib.sha256(f"card {item.id}".encode()).hexdigest())
        for item in drawn[:5]:
            lines += [f"**{item.id.removeprefix('open-cer/')}** ({_NAMES[language]})", ""]
            speakers = {"seeker": "person", "supporter": "supporter"}
            for turn in item.history:
                lines += [f"> {speakers[turn.speaker]}: " + turn.text.replace("\n", "  \n> "), ">"]
            reasoning = reasoning_of(item)
            values = {
                name: reasoning.label(name) for name in ("stage", "sentiment", "emotion", "intensity", "strategy")
            }
            lines[-1] = ""
            lines += [f"- {step}: {reasoning.text(step)}" for step in STEPS]
            lines += ["- " + ", ".join(f"{name} {value}" for name, value in values.items())]
            lines += [f"- **reply: {item.reference}**".replace("\n", " "), ""]
    return lines


PARTS: dict[str, Callable[[], list[str]]] = {
    "sizes": sizes,
    "items": items,
    "attacks": attacks,
    "rated": rated,
    "everyday": everyday,
    "labels": labels,
    "lengths": lengths,
    "planned": planned,
    "moments": shown,
}


def counted_again(card: str) -> str:
    """The card with its counted parts made from the files as they are now."""
    return _COUNTED.sub(lambda found: "\n".join([found[1], *PARTS[found[2]](), found[3]]), card)


def draw_grid() -> None:
    """Which situations meet which kinds of moment, per language."""
    rows = plan()
    with drawing(PICTURE, 11, 10.5, font_size=8) as figure:
        panels: Any = figure.subplots(1, 2, sharey=True)
        for axes, language in zip(panels, LANGUAGES, strict=True):
            counts = Counter(
                (row[1], kind) for row in rows if row[0].startswith(language) for kind in row[5].split(" > ")
            )
            frame(axes, f"{_NAMES[language]}: moments planned")
            cells = [[counts[situation, kind] for kind in KINDS] for situation in SITUATIONS]
            from matplotlib.colors import LinearSegmentedColormap

            axes.imshow(cells, aspect="auto", cmap=LinearSegmentedColormap.from_list("", [PAPER, ACCENT]), vmin=0)
            for row, line in enumerate(cells):
                for column, count in enumerate(line):
                    if count:
                        axes.text(column, row, count, ha="center", va="center", fontsize=7,
                                  color=PAPER if count > 2 else INK)  # fmt: skip
            axes.set_xticks(range(len(KINDS)), KINDS, rotation=60, ha="right")
            axes.set_yticks(range(len(SITUATIONS)), SITUATIONS)
            for side in ("left", "bottom"):
                axes.spines[side].set_color(QUIET)
    from PIL import Image

    with Image.open(PICTURE) as drawn:  # few colours: a third of the size
        drawn.convert("RGB").quantize(24).save(PICTURE, optimize=True)


def main() -> None:
    CARD.write_text(counted_again(CARD.read_text("utf-8")), "utf-8")
    draw_grid()


if __name__ == "__main__":
    main()
