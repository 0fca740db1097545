"""Safety of people: reading danger from a conversation, what a person in danger is told, and what a model may say.

levels              none, watch, high, emergency; kinds of danger; the risk that is kept in mind
normalise           one plain form of what people write
lexicon             the reader of data/lexicon_*.txt
network             the small learned model beside the lexicon
screen              what one message tells
context             a message as an answer to a question, and after what was said before
crisis_path         what we say at high risk, from data/crisis_replies.jsonl
outgoing            what a model wrote, before it is shown
helplines, messages numbers by country and danger (data/helplines.json); banner, notice and other fixed words
guard               a second opinion from a model, where one is configured
conversation_guard  all of it around each turn
"""

from __future__ import annotations

from collections.abc import Iterable

from compeer.safety.conversation_guard import Assessment, Audit, ConversationGuard, Outcome, ReplyScreen, Said
from compeer.safety.levels import Danger, Finding, Level, Risk, Span, at_least, worst
from compeer.safety.screen import lexicon_finding, screen


def crisis_words(text: str) -> list[str]:
    """The words in a text that disclose danger to someone's life or body, each once, in order.

    >>> crisis_words("Some days I just don't want to wake up anymore."), crisis_words("This exam is killing me.")
    (["don't want to wake up anymore"], [])
    """
    spans = [span for span in lexicon_finding(text).spans if span.kind != "bereaved"]
    return list(dict.fromkeys(text[span.start : span.end].strip() for span in sorted(spans, key=lambda one: one.start)))


def discloses_crisis(dialogue_texts: Iterable[str]) -> bool:
    """Whether anyone in a dialogue speaks of danger to a life or body; for marking data, so denials count too."""
    return any(crisis_words(text) for text in dialogue_texts)


__all__ = [
    "Assessment",
    "Audit",
    "ConversationGuard",
    "Danger",
    "Finding",
    "Level",
    "Outcome",
    "ReplyScreen",
    "Risk",
    "Said",
    "Span",
    "at_least",
    "crisis_words",
    "discloses_crisis",
    "lexicon_finding",
    "screen",
    "worst",
]
