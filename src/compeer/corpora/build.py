"""From what a corpus says to a Dialogue: labels looked up, both sides checked, the rest kept.

Labels go through the ontology. A name it does not know is never forced into one it does: the label stays empty
and the name is counted under `extra["unmapped_strategies"]` or `["unmapped_emotions"]`. Where a corpus is finer
than we are (MESC's Interpretation, ESCoT's Imagery) the original name is kept by utterance index under
`extra["raw_strategies"]`.

Trap: on a supporter's utterance our `emotion` is the seeker's, as read there. A corpus that labels what the
*supporter* feels must not put it there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from compeer.dialogue import Dialogue, Utterance
from compeer.reasoning.ontology import EMOTIONS, STRATEGIES, Language, fold

#: what corpora write where there is no label
_ABSENT = frozenset({"", "undefined", "none", "null", "n/a", "nan"})
_CHINESE = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_LATIN = re.compile(r"[A-Za-z]+")


class Labels:
    """The labels of one dialogue, and what could not be mapped."""

    def __init__(self) -> None:
        self.unmapped: dict[str, Counter[str]] = {"strategies": Counter(), "emotions": Counter()}
        self.raw: dict[str, str] = {}

    def strategy(self, name: str | None, at: int) -> str | None:
        """The identifier for a corpus's strategy name; `at` is the utterance's index."""
        if name is None or fold(name) in _ABSENT:
            return None
        # ESConv's own list writes them in brackets: "[Question]"
        value = STRATEGIES.find(name.strip().removeprefix("[").removesuffix("]"))
        if value is None:
            self.unmapped["strategies"][name.strip()] += 1
            self.raw[str(at)] = name.strip()
            return None
        if fold(name) != value.id:
            self.raw[str(at)] = name.strip()
        return value.id

    def emotion(self, name: str | None) -> str | None:
        if name is None or (fold(name) in _ABSENT and fold(name) != "none"):
            return None
        value = EMOTIONS.find(name)
        if value is None:
            self.unmapped["emotions"][name.strip()] += 1
        return value.id if value else None

    def extra(self) -> dict[str, Any]:
        kept: dict[str, Any] = {f"unmapped_{kind}": dict(names) for kind, names in self.unmapped.items() if names}
        if self.raw:
            kept["raw_strategies"] = self.raw
        return kept


def utterance(at: int, **fields: Any) -> Utterance:
    """An Utterance, its outer white space gone; what is wrong with it is told with its index."""
    fields["text"] = (fields["text"] or "").strip()
    try:
        return Utterance(**fields)
    except ValueError as problem:
        raise ValueError(f"utterance {at}: {problem}") from None


def dialogue(
    *, utterances: Iterable[Utterance], labels: Labels | None = None, extra: dict[str, Any] | None = None, **fields: Any
) -> Dialogue:
    """A Dialogue in which both sides speak. Empty values of `extra` are left out, and so are empty texts."""
    said = tuple(utterances)
    for side in ("supporter", "seeker"):
        if not any(u.speaker == side for u in said):
            raise ValueError(f"there is no {side} turn" if said else "there is no utterance")
    kept = {key: value for key, value in (extra or {}).items() if value not in (None, "", [], {}, ())}
    if labels:
        kept |= labels.extra()
    for optional in ("situation", "problem"):
        fields[optional] = (fields.get(optional) or "").strip() or None
    return Dialogue(utterances=said, extra=kept, **fields)


def scale(value: str | float | None) -> int | None:
    """A rating of 1 to 5, which corpora write as a string; None where there is none.

    >>> scale("4"), scale(""), scale("9"), scale(None)
    (4, None, None, None)
    """
    text = str(value).strip()
    return int(text) if text in {"1", "2", "3", "4", "5"} else None


def problem_type(name: str | None) -> str | None:
    """One spelling for a problem: corpora vary case and white space.

    >>> problem_type("Childhood  Shadow ")
    'childhood shadow'
    """
    return fold(name) if name and name.strip() else None


def language_of(text: str) -> Language:
    """Chinese where Chinese characters outnumber Latin words.

    >>> language_of("我今天很难过 ok"), language_of("I feel low"), language_of("")
    ('zh', 'en', 'en')
    """
    return "zh" if len(_CHINESE.findall(text)) > len(_LATIN.findall(text)) else "en"
