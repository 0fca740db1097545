"""Dialogues for the page, as small JSON that a script can carry.

What was said is data. It goes into the page as JSON inside a script element of a type that no browser runs, with every
character that could end the element or begin another one written as an escape; the page's script puts it on the
screen as text, never as markup. The reasoning is taken apart here, by `compeer.reasoning`, not in the browser.
"""

from __future__ import annotations

from typing import Any

import msgspec

from compeer.evals.report.gather import Run
from compeer.evals.result import Said, Transcript
from compeer.reasoning import LABELS, STEPS, Parsed, parse
from compeer.reasoning.schema import TAG, write_value

#: a step by the name that a reader sees
STEP_NAMES = {
    "en": {"history": "History", "emotion": "Emotion", "strategy": "Strategy"},
    "zh": {"history": "历史", "emotion": "情绪", "strategy": "策略"},
}
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def run_json(run: Run) -> str:
    """A run's dialogues as JSON that may stand inside a script element.

    >>> inline("</script><!--&")
    '"\\\\u003c/script\\\\u003e\\\\u003c!--\\\\u0026"'
    """
    return inline({"samples": [_sample(sample, run.result.benchmark) for sample in run.transcripts[: run.shown]]})


def inline(value: Any) -> str:
    """JSON without any character that means something to HTML."""
    text = msgspec.json.encode(value).decode()
    for character, escaped in _UNSAFE.items():
        text = text.replace(character, escaped)
    return text


def _sample(sample: Transcript, benchmark: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": sample.id,
        "language": sample.language,
        "said": [_said(said) for said in sample.said],
        "scores": {name: value for name, value in sample.scores.items() if not _twice(name, benchmark)},
        "about": sample.about,
    }
    if sample.curve:
        made["curve"] = sample.curve
    if sample.end:
        made["end"] = sample.end
    return made


def _said(said: Said) -> dict[str, Any]:
    made: dict[str, Any] = {"who": said.speaker, "text": said.text}
    if said.reasoning:
        made["thought"] = _thought(said.reasoning, said.text)
    if said.emotion is not None:
        made["emotion"] = said.emotion
    if said.note:
        made["note"] = said.note
    return made


def _thought(reasoning: str, reply: str) -> dict[str, Any]:
    """The steps with their conclusions; thinking of another form as it is."""
    parsed = parse(f"{reasoning}\n{reply}")
    if not parsed.texts and not parsed.labels:
        return {"raw": TAG.sub("\n", reasoning).strip()}
    named = _named(parsed)
    titles = STEP_NAMES[parsed.language or "en"]
    steps = [
        {
            "name": titles[step],
            "text": parsed.texts.get(step, ""),
            "labels": [named[label] for label in LABELS[step] if label in named],
        }
        for step in STEPS
    ]
    return {"steps": steps, "chips": _chips(named), "problems": [str(problem) for problem in parsed.problems]}


def _chips(named: dict[str, str]) -> list[str]:
    feeling = named.get("emotion")
    if feeling and "intensity" in named:
        feeling = f"{feeling} {named['intensity']}"
    return [chip for chip in (named.get("stage"), feeling, named.get("strategy")) if chip]


def _named(parsed: Parsed) -> dict[str, str]:
    language = parsed.language or "en"
    named = {label: write_value(label, value, language) for label, value in parsed.labels.items()}
    if "intensity" in named:
        named["intensity"] += "/5"
    return named


def _twice(name: str, benchmark: str) -> bool:
    """SAGE's score is the end of its curve."""
    return benchmark == "sage" and name == "emotion"
