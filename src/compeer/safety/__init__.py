"""Safety of people: reading danger from a conversation, what a person in danger is told, and what a model may say.

levels              none, watch, high, emergency; kinds of danger; the risk that is kept in mind
normalise           one plain form of what people write
lexicon             the reader of data/lexicon_*.txt
network             learned models beside the lexicon, of a message and of the last six together
screen              what one message tells
answers             how people answer a question about safety, by kind (data/answers.json)
context             a message as an answer to a question, and after what was said before
reader              a language model that reads the conversation, where there is one
crisis_path         what we say at high risk, from data/crisis_replies.jsonl
outgoing            what a model wrote, before it is shown (data/lexicon_out_*.txt, data/unfit_replies.json)
helplines           numbers by country and danger (data/helplines.json)
messages            banner, notice and other fixed words (data/messages.json)
guard               a language model that reads the conversation, where one is configured
conversation_guard  all of it around each turn
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from compeer.safety.conversation_guard import Assessment, ConversationGuard, Outcome, ReplyScreen, Said
from compeer.safety.levels import Danger, Finding, Level, Risk, Span, at_least, worst
from compeer.safety.lexicon import lexicon
from compeer.safety.normalise import fold
from compeer.safety.screen import LANGUAGES, lexicon_finding, matches, screen, sentences_of

_SCRIPT = {"en": re.compile("[a-z]{2}"), "zh": re.compile("[\u3400-\u9fff]")}
#: kinds of rules that mark data. Questions about methods, plans and hints are too often harmless outside a conversation
_MARKED = frozenset({"wish", "selfharm", "means", "ingestion", "third", "mention", "bereaved"})


def crisis_words(text: str) -> list[str]:
    """The words in a text that disclose danger to someone's life or body, each once, in order; for marking data.

    Rules that say how a match is read (negation, the past, a film) do not count here: whoever reviews a mark loses a
    minute, whoever misses one may lose more.

    >>> crisis_words("Some days I just don't want to wake up anymore."), crisis_words("This exam is killing me.")
    (["don't want to wake up anymore"], [])
    """
    folded = fold(text)
    spans: set[tuple[int, int]] = set()
    for language in LANGUAGES:
        if not _SCRIPT[language].search(folded.text):
            continue
        words = lexicon(language)
        plain = folded.text
        for idiom in words.idioms:
            plain = idiom.sub(lambda match: " " * len(match.group()), plain)
        sentences = sentences_of(plain)
        for rule in words.rules:
            if rule.kind in _MARKED and not {"context", "raised"} & set(rule.marks):
                spans |= {match.span() for match, _ in matches(rule, plain, sentences, words.near)}
    found: list[str] = []
    last = 0
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end > last:  # not inside a longer one
            last = end
            start, end = folded.span(start, end)
            found.append(text[start:end].strip())
    return list(dict.fromkeys(found))


def discloses_crisis(dialogue_texts: Iterable[str]) -> bool:
    """Whether anyone in a dialogue speaks of danger to a life or body; for marking data, so denials count too."""
    return bool(crisis_words("\n".join(dialogue_texts)))  # one text is read several times as fast as its parts


__all__ = [
    "Assessment",
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
