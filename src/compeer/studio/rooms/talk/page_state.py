"""What the page of Talk shows: a conversation and its answers, help, and the words of every label, as JSON.

While risk is high the page is handed no analysis: no thinking, no conclusions (and so no chips and no curve), no
earlier answers, and `urgent`, by which it offers no second answer.
"""

from __future__ import annotations

from typing import Any

from compeer.conversation import AnsweredTurn, TurnResult
from compeer.reasoning import STEPS, Control
from compeer.reasoning.ontology import INTENSITIES, INTENSITY_DEFINITIONS, VOCABULARIES, Language, Vocabulary
from compeer.reasoning.prompt import Think
from compeer.reasoning.schema import KEYS, LABELS
from compeer.safety import Assessment
from compeer.safety.messages import message
from compeer.studio.pages import Say, help_lines
from compeer.studio.rooms.talk.session import Live, TalkVisit


def opening(language: Language) -> tuple[str, str]:
    """What this is, and when to call: the two lines that open every conversation."""
    what, call = message("opening", language).split("\n")
    return what, call


#: which sentence explains a problem; whatever is not here is about the form of the thinking
_PROBLEMS = {"endless": "endless", "withheld": "withheld", "pin": "pin", "given": "given", "tag-in-reply": "markup"}


def shown_state(visit: TalkVisit, usual: Think, say: Say, country: str | None) -> dict[str, Any]:
    """Everything that the page shows. `usual`: how much is thought where nobody chose and nothing was said."""
    live = visit.lives.get(visit.current or "")
    listed = [{"id": one.id, "title": one.title} for one in visit.lives.values() if one.title]
    told = {"conversation": None, "conversations": listed, "think": visit.think or usual}
    if live is None:
        empty: dict[str, Any] = {"turns": [], "unanswered": None, "pins": {}, "model": 0, "reminder": None}
        return told | empty | shown_help(None, country, say)
    conversation = live.conversation
    unanswered = None
    if (left := conversation.unanswered) is not None:
        unanswered = {"said": left.text, "pictures": live.keys_of(left.images)}
    return told | {
        "conversation": live.id,
        "think": conversation.settings.sampling.think,
        "turns": [shown_turn(live, turn, say) for turn in conversation.turns],
        "unanswered": unanswered,
        "pins": dict(conversation.settings.pins.items()),
        "model": live.voice,
        "reminder": live.reminder,
        **shown_help(live, live.country, say),
    }


def shown_turn(live: Live, turn: AnsweredTurn, say: Say) -> dict[str, Any]:
    urgent = live.conversation.assessment.urgent
    earlier = [[{"said": one.said, "reply": one.answer.reply} for one in branch] for branch in turn.earlier]
    return {
        "said": turn.said,
        "pictures": live.keys_of(turn.images),
        "answer": _answer(turn.answer, say, urgent) | {"thumb": live.thumbed(turn.answer).thumb},
        "others": [] if urgent else [_answer(other, say) for other in turn.others],
        "earlier": [] if urgent else earlier,
    }


def vocabulary(language: Language) -> dict[str, Any]:
    """Every label with its name and its values, for menus and chips; in lists, to keep the contract's order."""
    labels: list[Any] = []
    for label, keys in KEYS.items():
        values = _values(VOCABULARIES[label], language) if label in VOCABULARIES else _intensities(language)
        labels.append([label, {"name": keys[language], "values": values}])
    return {"labels": labels, "steps": [[step, list(names)] for step, names in LABELS.items()]}


def _answer(result: TurnResult, say: Say, urgent: bool = False) -> dict[str, Any]:
    """An answer for the page; while risk is high its words alone."""
    parsed, outcome = result.parsed, result.outcome
    return {
        "reply": result.reply,
        "texts": {} if urgent else dict(parsed.texts),
        "labels": {} if urgent else dict(parsed.labels),
        "fixed": _fixed(Control() if urgent else result.control),
        "whole": parsed.reasoning is not None and not urgent,
        "problem": None if urgent else _problem(result, say),
        "note": outcome.note,
        "model": result.model.partition("@")[0].rpartition(":")[2],
    }


def _fixed(control: Control) -> dict[str, Any]:
    """What the person fixed in this answer: pins and the edited step. Steps before the edited one do not count."""
    given = [step for step in STEPS if step in control.given]
    kept = {label for step in given[:-1] for label in LABELS[step]}
    return {"pins": {label: value for label, value in control.pins.items() if label not in kept}, "steps": given[-1:]}


def _problem(result: TurnResult, say: Say) -> str | None:
    """The most important problem as a sentence; None when there is none, or when a note says it already."""
    if not result.problems or result.outcome.note:
        return None
    codes = [problem.code for problem in result.problems]
    if "unanswered" in codes:
        return say("talk.unanswered")
    if not result.raw.strip():
        return say("talk.problem.nothing")
    if "empty-reply" in codes and not result.reply.strip():
        return say("talk.problem.silent")
    found = next((_PROBLEMS[code] for code in codes if code in _PROBLEMS), "form")
    return say(f"talk.problem.{found}")


def shown_help(live: Live | None, country: str | None, say: Say) -> dict[str, Any]:
    """The banner and the helplines. `level`: of risk. `urgent`: no analysis and no second answer now."""
    found = live.conversation.assessment if live is not None else Assessment()
    shown = None
    if live is not None and live.banner is not None:
        shown = {"words": live.banner, "urgent": found.urgent}
    poison = "ingestion" in found.kinds and found.level == "emergency"
    return {
        "banner": shown,
        "level": found.level,
        "urgent": found.urgent,
        "help": help_lines(country, say.language, found.danger, poison=poison),
    }


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
