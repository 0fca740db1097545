"""How people answer a question about their safety, by kind: a table in `data/answers.json`, read from the top.

    done, within reach, soon, a day          it has happened, it is there, it is to happen
    yes, how often, a number, yes inside     yes
    wishes to be gone, yes and no, a question for an answer      not plainly a no: high
    half a no, takes back, no answer         not plainly a no: watch, and it is asked again in other words
    once, other person                       no, and something remains to be kept in mind
    a no, a no inside, fine, harmless reason no

What fits no kind is no answer either: it is kept at watch at least, and readers of the conversation may say more
(`reader.heed`). They do not overrule a kind. Only a plain no begins to ease what is kept in mind (`levels`).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

import msgspec

from compeer.safety.levels import DATA, Level
from compeer.typed import from_json

Question = Literal["taken", "desire", "plan", "means", "in_danger", "safe_now", "who_is_near"]
Answer = Literal["yes", "no", "unsure"]
WORDS = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]")
#: words that may stand before an answer
_LEAD = (
    r"^\W*(?:(?:um+|uh+|er+|well|honestly|i mean|so|ok|okay|actually|tbh|ngl|to be honest|look|oh|omg|hmm+|please|"
    r"lol+|lmao+|ha+h?a*|i|just|and|thank u for actually asking|ok then)\W+)*"
)
_LEAD_ZH = r"^\W*(?:哈+|嗐|害|啊|哎|唉|天|喂|笑死|好吧|那|我也?|就|其实|应该|\[狗头\])*\W*"


class Kind(msgspec.Struct, frozen=True):
    """A row of the table; what its fields mean stands in the file."""

    kind: str
    says: str
    answer: Answer
    where: Literal["begin", "any"]
    en: tuple[str, ...]
    zh: tuple[str, ...]
    question: Question | None = None
    level: Level | None = None
    after: tuple[Question, ...] = ()
    unless: dict[str, str] = {}
    needs: dict[str, str] = {}
    longest: int | None = None
    explained: bool = False


class _Table(msgspec.Struct, frozen=True):
    note: str
    kinds: tuple[Kind, ...]


class _Read(msgspec.Struct, frozen=True):
    kind: Kind
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None
    needs: re.Pattern[str] | None


@cache
def table() -> tuple[_Read, ...]:
    """Every kind with its patterns."""
    made = []
    for kind in from_json((DATA / "answers.json").read_bytes(), _Table).kinds:
        english, chinese = "|".join(f"(?:{one})" for one in kind.en), "|".join(f"(?:{one})" for one in kind.zh)
        if kind.where == "begin":
            english, chinese = f"{_LEAD}(?:{english})", f"{_LEAD_ZH}(?:{chinese})"
        made.append(_Read(kind, re.compile(f"{english}|{chinese}"), _any(kind.unless), _any(kind.needs)))
    return tuple(made)


def _any(patterns: dict[str, str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{one})" for one in patterns.values())) if patterns else None


def kind_of(question: Question, text: str) -> Kind | None:
    """Which kind of answer a text is (in its plain form, `normalise.fold`); None where it is none that is known.

    >>> kind_of("desire", "sometimes. mostly on sundays").kind, kind_of("desire", "not really").kind
    ('how often', 'half a no')
    >>> kind_of("desire", "想哪去了 我调去成都").kind, kind_of("desire", "the dog is barking at a bag")
    ('harmless reason', None)
    """
    size = len(WORDS.findall(text))
    for row in table():
        kind = row.kind
        if kind.after and question not in kind.after:
            continue
        if kind.longest is not None and size > kind.longest:
            continue
        if row.needs and not row.needs.search(text):
            continue
        if row.pattern.search(text) and not (row.unless and row.unless.search(text)):
            return kind
    return None
