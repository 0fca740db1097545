"""A conversation as the page shows it: plain values, which the page puts in as text and never as markup."""

from __future__ import annotations

from typing import Any

from compeer.chat.session import Turn
from compeer.reasoning import STEPS, Control, Event
from compeer.reasoning.ontology import INTENSITIES, INTENSITY_DEFINITIONS, VOCABULARIES, Language, Vocabulary
from compeer.reasoning.schema import KEYS, LABELS
from compeer.studio.rooms.talk.care import lines
from compeer.studio.rooms.talk.live import Live
from compeer.studio.words import Say

#: which sentence explains a problem; whatever is not here is about the form of the thinking
_PROBLEMS = {"endless": "endless", "withheld": "withheld", "pin": "pin", "given": "given", "tag-in-reply": "markup"}


def state(live: Live | None, language: Language, say: Say, country: str | None) -> dict[str, Any]:
    """Everything that the page shows."""
    if live is None:
        return {"turns": [], "unanswered": None, "pins": {}, "model": 0, "reminder": None, **_help(None, country, say)}
    conversation = live.conversation
    unanswered = None
    if conversation.unanswered is not None:
        pictures = live.keys_of(conversation.unanswered_images)
        unanswered = {"said": conversation.unanswered, "pictures": pictures}
    return {
        "turns": [turn_told(live, turn, say) for turn in conversation.turns],
        "unanswered": unanswered,
        "pins": dict(conversation.settings.pins.items()),
        "model": live.voice,
        "reminder": live.reminder,
        **_help(live, live.country, say),
    }


def turn_told(live: Live, turn: Turn, say: Say) -> dict[str, Any]:
    return {
        "said": turn.said,
        "pictures": live.keys_of(turn.images),
        "answer": _answer(turn, say),
        "others": [_answer(other, say) for other in turn.others],
    }


def event_told(event: Event) -> dict[str, Any] | None:
    """A piece of an answer; None for what the page needs not know."""
    if event.kind == "close":
        return None
    told: dict[str, Any] = {"kind": event.kind}
    if event.kind in ("step", "text", "label"):
        told["step"] = event.step
    if event.kind in ("text", "reply"):
        told["text"] = event.text
    if event.kind == "label":
        told |= {"label": event.label, "value": event.value}
    return told


def banner_told(live: Live, say: Say) -> dict[str, Any]:
    """The banner, as it is after what has just happened."""
    return _help(live, live.country, say)


def vocabulary(language: Language) -> dict[str, Any]:
    """Every label with its name and its values, for menus and chips; in lists, to keep the contract's order."""
    labels: list[Any] = []
    for label, keys in KEYS.items():
        values = _values(VOCABULARIES[label], language) if label in VOCABULARIES else _intensities(language)
        labels.append([label, {"name": keys[language], "values": values}])
    return {"labels": labels, "steps": [[step, list(names)] for step, names in LABELS.items()]}


def _answer(turn: Turn, say: Say) -> dict[str, Any]:
    safety, parsed = turn.safety, turn.parsed
    return {
        "reply": safety.reply or parsed.response,
        "texts": dict(parsed.texts),
        "labels": dict(parsed.labels),
        "fixed": _fixed(turn.control),
        "whole": parsed.reasoning is not None,
        "problem": _problem(turn, say),
        "note": safety.note,
        "asked": safety.check_in,
        "model": turn.model.partition("@")[0].rpartition(":")[2],
    }


def _fixed(control: Control) -> dict[str, Any]:
    """What the person decided in this answer: pins, and the step in their words; the steps before it were only kept."""
    given = [step for step in STEPS if step in control.given]
    kept = {label for step in given[:-1] for label in LABELS[step]}
    return {"pins": {label: value for label, value in control.pins.items() if label not in kept}, "steps": given[-1:]}


def _problem(turn: Turn, say: Say) -> str | None:
    """The one sentence that matters most; None when all is well, or when a note says it already."""
    if not turn.problems or turn.safety.note:
        return None
    codes = [problem.code for problem in turn.problems]
    if not turn.raw.strip():
        return say("talk.problem.nothing")
    if "empty-reply" in codes and not turn.safety.reply.strip():
        return say("talk.problem.silent")
    found = next((_PROBLEMS[code] for code in codes if code in _PROBLEMS), "form")
    return say(f"talk.problem.{found}")


def _help(live: Live | None, country: str | None, say: Say) -> dict[str, Any]:
    banner = live.banner if live is not None else None
    shown = None
    if live is not None and banner is not None:
        shown = {"words": banner.words, "urgent": live.conversation.guarded.risk.level != "none"}
    return {"banner": shown, "help": lines(country, say.language)}


def _values(words: Vocabulary, language: Language) -> list[dict[str, Any]]:
    return [
        {
            "id": value.id,
            "name": value.name(language),
            "about": value.definition_zh if language == "zh" else value.definition,
            "sentiments": list(value.sentiments),
        }
        for value in words
    ]


def _intensities(language: Language) -> list[dict[str, Any]]:
    about = INTENSITY_DEFINITIONS[language]
    return [{"id": one, "name": str(one), "about": about[one], "sentiments": []} for one in INTENSITIES]
