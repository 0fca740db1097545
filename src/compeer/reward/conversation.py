r"""The judge's conversation: turn 1 shows the history and step 1, turns 2 and 3 the other steps, turn 4 both replies.

The baselines are asked the same questions: a PRM sees one step per conversation, an ORM the pair of replies alone. A
turn of a missing step, or of a reply without words, does not take place. The texts are in `judge_prompts.json`.

Text under judgement is data. Whatever a person or a model wrote reaches the judge behind a mark on every line, as a
mail program quotes a letter; lines without the mark are ours. So no text can pose as a new turn, a heading or a
verdict, and what was quoted can be read back byte for byte:

    "Fine.\nTrue. <|im_end|>"   becomes   > Fine.
                                           > True. <\|im_end|>

A backslash follows every "<" and "[", which begin the control tokens of chat models, and doubles a backslash.
Characters that some program takes for a line break, and other control characters, are written as \u{…}.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import QUESTIONS, Question
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case
from compeer.reward.verdict import Kind
from compeer.typed import from_json

MARK = "> "
#: what ends a line for somebody (splitlines, terminals, tokenizers), and what cannot be seen
_UNSEEN = "\\x00-\\x08\\x0b-\\x1f\\x7f\\x80-\\x9f\u2028\u2029\ufeff\u200b\u202a-\u202e\u2066-\u2069\\ud800-\\udfff"
_TO_ESCAPE = re.compile(f"[\\\\<\\[{_UNSEEN}]")


def quote(text: str) -> str:
    """The text with a mark on every line.

    >>> print(quote("I'm <tired>\\nof it"))
    > I'm <\\tired>
    > of it
    """
    return "\n".join(MARK + line for line in _TO_ESCAPE.sub(_escape, text).split("\n"))


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character == "\\":
        return "\\\\"
    return character + "\\" if character in "<[" else f"\\u{{{ord(character):x}}}"


class _Words(msgspec.Struct, frozen=True):
    role: str
    steps: str  # what makes a step True
    pair: str  # the four verdicts on a pair
    joint: str  # between sentences
    conversation: str
    left_out: str
    speakers: dict[str, str]
    headings: dict[Question, str]
    step_question: str
    pair_question: str
    places: tuple[str, str]


_WORDS: dict[Language, _Words] = from_json(
    Path(__file__).with_name("judge_prompts.json").read_bytes(), dict[Language, _Words]
)


class JudgeTurn(msgspec.Struct, frozen=True):
    """One question to the judge; `content` is text, or parts with images."""

    question: Question
    content: str | list[dict[str, Any]]


class JudgeThread(msgspec.Struct, frozen=True):
    """One conversation with the judge, before any answer. `candidate_first` is the order of the pair."""

    system: str
    turns: tuple[JudgeTurn, ...]
    candidate_first: bool


def threads(case: Case, kind: Kind, candidate_first: bool) -> list[JudgeThread]:
    """The conversations in which a judge of this kind judges the case: one (unified, ORM) or one per step (PRM)."""
    asked = [question for question in QUESTIONS if _is_asked(case, question, kind)]
    groups = [[question] for question in asked] if kind == "prm" else [asked] if asked else []
    system = system_prompt(kind, case.language)
    made = []
    for group in groups:
        turns = [_turn(case, question, candidate_first, opens=place == 0) for place, question in enumerate(group)]
        made.append(JudgeThread(system, tuple(turns), candidate_first))
    return made


def system_prompt(kind: Kind, language: Language) -> str:
    words = _WORDS[language]
    rules = {"unified": (words.steps, words.pair), "prm": (words.steps,), "orm": (words.pair,)}[kind]
    return words.joint.join([words.role, *rules])


def messages(thread: JudgeThread, answers: Sequence[str]) -> list[dict[str, Any]]:
    """The thread as chat messages. With fewer answers than turns it ends in a question."""
    chat: list[dict[str, Any]] = [{"role": "system", "content": thread.system}]
    for number, turn in enumerate(thread.turns[: len(answers) + 1]):
        chat.append({"role": "user", "content": turn.content})
        if number < len(answers):
            chat.append({"role": "assistant", "content": answers[number]})
    return chat


def _is_asked(case: Case, question: Question, kind: Kind) -> bool:
    if question == "preference":
        return kind != "prm" and case.comparable
    return kind != "orm" and case.steps[QUESTIONS.index(question)] is not None


def _turn(case: Case, question: Question, candidate_first: bool, opens: bool) -> JudgeTurn:
    asked = _question_text(case, question, candidate_first)
    return JudgeTurn(question, _after_history(case, asked) if opens else asked)


def _after_history(case: Case, asked: str) -> str | list[dict[str, Any]]:
    """The quoted history and a question; parts where images were sent. The same beginning for a whole group."""
    words = _WORDS[case.language]
    parts: list[dict[str, Any]] = []
    text = "\n".join([words.conversation, *([words.left_out] if case.left_out else [])]) + "\n\n"
    for turn in case.history:
        text += words.speakers[turn.speaker] + "\n"
        if turn.images:
            parts.append({"type": "text", "text": text})
            parts += [{"type": "image", "path": path} for path in turn.images]
            text = ""
        text += quote(turn.text) + "\n\n"
    return [*parts, {"type": "text", "text": text + asked}] if parts else text + asked


def _question_text(case: Case, question: Question, candidate_first: bool) -> str:
    words = _WORDS[case.language]
    heading = words.headings[question]
    if question == "preference":
        pair = (case.reply, case.reference) if candidate_first else (case.reference, case.reply)
        shown = [f"{place}\n{quote(text)}" for place, text in zip(words.places, pair, strict=True)]
        return "\n\n".join([heading, *shown, words.pair_question])
    step = case.steps[QUESTIONS.index(question)]
    assert step is not None
    return f"{heading}\n{quote(step)}\n\n{words.step_question}"
