"""Strict reading of a model's output. Never raises; linear in the length of the text.

Complete means: one `<think>` block with the three steps, each once, in order, each with free text and
then its labelled lines in order with valid values, nothing between the steps, and after it a reply that
has words and no tags. White space and letter case do not matter; everything else does, because
completeness is the format part of the reward and a model will find whatever is left open.

Each problem says what is wrong and where, in one line, and carries a code for counting.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Self

import msgspec

from compeer.reasoning.ontology import INTENSITIES, VOCABULARIES, Language
from compeer.reasoning.schema import (
    KEYS,
    LABELS,
    STEPS,
    TAG,
    TAG_SEQUENCE,
    Reasoning,
    has_words,
    match_label_line,
    read_value,
)

# something that looks like markup in a reply, whether ours or not ("<3" does not)
_MARKUP = re.compile(r"</?[A-Za-z][A-Za-z0-9_:-]*+(?:\s[^<>]*+)?/?>")


class Problem(str):
    """One thing that keeps an output from being complete: a sentence, with a code and the step it is in."""

    code: str
    step: str | None

    def __new__(cls, code: str, message: str, step: str | None = None) -> Self:
        problem = super().__new__(cls, message)
        problem.code, problem.step = code, step
        return problem


class Parsed(msgspec.Struct, frozen=True):
    """What an output holds. `reasoning` is there when all three steps are; `texts` and `labels` hold what was found."""

    complete: bool
    problems: tuple[Problem, ...]
    reasoning: Reasoning | None
    response: str
    texts: dict[str, str]
    labels: dict[str, str | int]
    language: Language | None


_THINKING = re.compile(r"\A\s*<think>(.*?)</think>", re.DOTALL)


def split_thinking(text: str) -> tuple[str | None, str]:
    """The text of a leading `<think>` block, whatever is in it, and what follows it. None: there is no such block.

    For what other models write: judges, seekers, any server that thinks before it answers. The contract itself is read
    by `parse`.

    >>> split_thinking("<think>Short.</think>True.")
    ('Short.', 'True.')
    """
    found = _THINKING.match(text)
    return (found[1], text[found.end() :]) if found else (None, text)


def begins_with_thinking(text: str) -> bool:
    """Whether a text opens a `<think>` block, finished or not."""
    return text.lstrip().startswith("<think>")


def parse(text: str) -> Parsed:
    """Read a model's whole output."""
    problems: list[Problem] = []
    tags = list(TAG.finditer(text))
    names = [tag.group(1) + tag.group(2).lower() for tag in tags]
    end_of_thinking = next((tag for tag, name in zip(tags, names, strict=True) if name == "/think"), None)
    cut = end_of_thinking.end() if end_of_thinking else len(text)
    inside = [name for tag, name in zip(tags, names, strict=True) if tag.start() < cut]

    problems += _check_tags(inside)
    if tuple(inside) == TAG_SEQUENCE:
        problems += _check_gaps(text, tags)

    texts: dict[str, str] = {}
    labels: dict[str, str | int] = {}
    languages: set[Language] = set()
    for step in STEPS:
        body = _body(text, tags, names, step, cut)
        if body is not None:
            found = _read_step(step, body)
            problems += found.problems
            if found.text:
                texts[step] = found.text
            labels |= found.labels
            languages |= found.languages
    if len(languages) > 1:
        problems.append(Problem("mixed-languages", "the labelled lines mix English and Chinese; use one language"))

    response = _response(text, tags, names, end_of_thinking)
    reply_tags = len(tags) - len(inside)
    if reply_tags:
        problems.append(Problem("tag-in-reply", f"the reply contains {_times(reply_tags, 'reasoning tag')}"))
    elif markup := _MARKUP.search(response):
        problems.append(Problem("tag-in-reply", f"the reply contains markup: {markup.group()[:40]}"))
    if not has_words(response):
        problems.append(Problem("empty-reply", "there is no reply after </think>"))

    reasoning = None
    if len(texts) == len(STEPS) and len(labels) == len(KEYS) and len(languages) == 1:
        reasoning = Reasoning.of(texts, labels, next(iter(languages)))
    language = next(iter(languages)) if len(languages) == 1 else None
    return Parsed(not problems, tuple(problems), reasoning, response, texts, labels, language)


def fields(parsed: Parsed, raw: str) -> dict[str, Any]:
    """The flat object that scripts see: `compeer parse --json` and `compeer chat --once --json`."""
    return {
        "history": parsed.texts.get("history"),
        **{label: parsed.labels.get(label) for label in KEYS},
        "reasoning": {step: parsed.texts.get(step) for step in STEPS},
        "response": parsed.response,
        "raw": raw,
        "complete": parsed.complete,
        "problems": [str(problem) for problem in parsed.problems],
    }


def _check_tags(inside: list[str]) -> list[Problem]:
    """Each tag once and in order, up to and including the first </think>."""
    if tuple(inside) == TAG_SEQUENCE:
        return []
    counts = Counter(inside)
    problems = []
    if not counts["think"]:
        problems.append(Problem("no-think", "there is no <think> block"))
    if not counts["/think"] and counts["think"]:
        problems.append(Problem("unclosed-think", "<think> is never closed"))
    if counts["think"] > 1:
        problems.append(Problem("repeated-think", f"<think> appears {counts['think']} times; it must appear once"))
    for step in STEPS:
        opened, closed = counts[step], counts["/" + step]
        if not opened and not closed:
            problems.append(Problem("missing-step", f"there is no <{step}> step", step))
        elif opened > 1 or closed > 1:
            times = max(opened, closed)
            problems.append(Problem("repeated-step", f"<{step}> appears {times} times; it must appear once", step))
        elif not closed:
            problems.append(Problem("unclosed-step", f"<{step}> is never closed", step))
        elif not opened:
            problems.append(Problem("unopened-step", f"</{step}> closes a step that was never opened", step))
    if not problems:
        problems.append(Problem("order", "the steps must be history, emotion, strategy, in this order, not nested"))
    return problems


def _check_gaps(text: str, tags: list[re.Match[str]]) -> list[Problem]:
    """Nothing but white space before <think> and between the steps."""
    problems = []
    if text[: tags[0].start()].strip():
        problems.append(Problem("stray-text", "there is text before <think>"))
    for before, after in ((0, 1), (2, 3), (4, 5), (6, 7)):
        if text[tags[before].end() : tags[after].start()].strip():
            where = f"between <{TAG_SEQUENCE[before]}> and <{TAG_SEQUENCE[after]}>"
            problems.append(Problem("stray-text", f"there is text {where}"))
    return problems


def _body(text: str, tags: list[re.Match[str]], names: list[str], step: str, cut: int) -> str | None:
    """What stands inside a step that is opened and closed, with no other tag inside."""
    for number, name in enumerate(names[:-1]):
        if name == step and names[number + 1] == "/" + step and tags[number].start() < cut:
            return text[tags[number].end() : tags[number + 1].start()]
    return None


class _Step(msgspec.Struct):
    text: str
    labels: dict[str, str | int]
    languages: set[Language]
    problems: list[Problem]


def _read_step(step: str, body: str) -> _Step:
    """Free text, then the labelled lines of this step, in order, each once, with a valid value."""
    found = _Step("", {}, set(), [])
    lines = body.split("\n")
    matches = [match_label_line(step, line) for line in lines]
    first = next((number for number, match in enumerate(matches) if match), len(lines))
    found.text = "\n".join(lines[:first]).strip()
    if not has_words(found.text):
        found.text = ""
        found.problems.append(Problem("empty-step", f"<{step}> has no free text before its labelled lines", step))
    order: list[str] = []
    times: Counter[str] = Counter()
    trailing = False
    for line, match in zip(lines[first:], matches[first:], strict=True):
        if match is None:
            trailing = trailing or bool(line.strip())
            continue
        label, language, written = match
        found.languages.add(language)
        if times[label] == 0:  # the first line counts; further ones are reported as repeated
            value = read_value(label, written, language)
            if value is None:
                found.problems.append(_invalid(step, label, language, written))
            else:
                found.labels[label] = value
        order.append(label)
        times[label] += 1
    for label in LABELS[step]:
        if times[label] == 0:
            key = KEYS[label]["en"]
            found.problems.append(Problem("missing-label", f"<{step}> has no line '{key}: …'", step))
        elif times[label] > 1:
            key = KEYS[label]["en"]
            found.problems.append(Problem("repeated-label", f"<{step}> has {times[label]} lines '{key}: …'", step))
    if trailing:
        found.problems.append(Problem("misplaced-text", f"<{step}> has text after its labelled lines", step))
    if not found.problems and tuple(order) != LABELS[step]:
        wanted = ", ".join(KEYS[label]["en"] for label in LABELS[step])
        found.problems.append(Problem("label-order", f"the labelled lines of <{step}> must be {wanted}", step))
    return found


def _invalid(step: str, label: str, language: Language, written: str) -> Problem:
    key = KEYS[label][language]
    shown = repr(written[:40]) if written else "nothing"
    allowed = INTENSITIES if label == "intensity" else [v.name(language) for v in VOCABULARIES[label]]
    few = ", ".join(map(str, allowed[:8])) + (", …" if len(allowed) > 8 else "")
    return Problem("invalid-label", f"'{key}' in <{step}> is {shown}; it must be one of {few}", step)


def _response(text: str, tags: list[re.Match[str]], names: list[str], end_of_thinking: re.Match[str] | None) -> str:
    """The reply: what follows the thinking, without any tag of ours; the best guess where tags are missing."""
    if end_of_thinking:
        start = end_of_thinking.end()
    elif not tags:
        start = 0
    else:
        closed = [tag.end() for tag, name in zip(tags, names, strict=True) if name == "/strategy"]
        start = closed[-1] if closed else len(text)
    # a line break instead of each tag: "<th<think>ink>" must not close up to a new one
    return TAG.sub("\n", text[start:]).strip()


def _times(count: int, what: str) -> str:
    return f"a {what}" if count == 1 else f"{count} {what}s"
