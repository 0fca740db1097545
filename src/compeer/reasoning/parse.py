"""Strict reading of a model's output, and the way back. Reading never raises and is linear in the length of the text.

Complete means: one `<think>` block with the three steps, each once, in order, each with free text and
then its labelled lines in order with valid values, nothing between the steps, and after it a reply that
has words and no tags. White space and letter case do not matter; everything else does, because
completeness is the format part of the reward and a model will find whatever is left open.

Each problem says what is wrong and where, in one line, and carries a code for counting. `render` refuses what would not
parse back to the same.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple, Self

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
    render_step,
    write_value,
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


class _Tag(NamedTuple):
    """One of our tags in a text; the name of a closing one begins with a slash."""

    name: str
    start: int
    end: int


def parse(text: str) -> Parsed:
    """Read a model's whole output."""
    tags = [_Tag(one[1] + one[2].lower(), *one.span()) for one in TAG.finditer(text)]
    closing = next((place for place, tag in enumerate(tags) if tag.name == "/think"), None)
    inside = tags if closing is None else tags[: closing + 1]  # and behind them, the reply
    problems = _check_tags(text, inside)
    texts: dict[str, str] = {}
    labels: dict[str, str | int] = {}
    languages: set[Language] = set()
    for step in STEPS:
        if (body := _body(text, inside, step)) is not None:
            free = _read_step(step, body, labels, languages, problems)
            if free:
                texts[step] = free
    if len(languages) > 1:
        problems.append(Problem("mixed-languages", "the labelled lines mix English and Chinese; use one language"))

    response = _response(text, tags, closing)
    if extra := len(tags) - len(inside):
        many = "a reasoning tag" if extra == 1 else f"{extra} reasoning tags"
        problems.append(Problem("tag-in-reply", f"the reply contains {many}"))
    elif markup := _MARKUP.search(response):
        problems.append(Problem("tag-in-reply", f"the reply contains markup: {markup.group()[:40]}"))
    if not has_words(response):
        problems.append(Problem("empty-reply", "there is no reply after </think>"))

    language = next(iter(languages)) if len(languages) == 1 else None
    whole = language is not None and len(texts) == len(STEPS) and len(labels) == len(KEYS)
    reasoning = Reasoning.of(texts, labels, language or "en") if whole else None
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


def render(reasoning: Reasoning, response: str) -> str:
    """The full output. Raises ValueError when a text holds tags, labelled lines or no words.

    >>> r = Reasoning.of(
    ...     {"history": "Lost the job.", "emotion": "Ashamed.", "strategy": "Ask first."},
    ...     {"stage": "exploration", "sentiment": "negative", "emotion": "shame", "intensity": 4,
    ...      "strategy": "question"})
    >>> print(render(r, "What happened?"))
    <think>
    <history>
    Lost the job.
    Stage: exploration
    </history>
    <emotion>
    Ashamed.
    Sentiment: negative
    Emotion: shame
    Intensity: 4
    </emotion>
    <strategy>
    Ask first.
    Strategy: question
    </strategy>
    </think>
    What happened?
    """
    steps = "\n".join(f"<{step}>\n{render_step(reasoning, step)}\n</{step}>" for step in STEPS)
    output = f"<think>\n{steps}\n</think>\n{response}"
    parsed = parse(output)
    if parsed.problems:
        raise ValueError("cannot be rendered: " + "; ".join(parsed.problems))
    if parsed.reasoning != reasoning or parsed.response != response:
        raise ValueError("cannot be rendered: texts must not begin or end with white space")
    return output


def with_thinking(thinking: str, reply: str) -> str:
    """One text of what a server or a provider sent in two parts."""
    return f"<think>\n{thinking}\n</think>\n{reply}" if thinking else reply


def named_labels(parsed: Parsed) -> dict[str, str]:
    """The conclusions as a person of this language names them."""
    language = parsed.language or "en"
    return {label: write_value(label, value, language) for label, value in parsed.labels.items()}


def chips(parsed: Parsed) -> list[str]:
    """The conclusions in short: stage, feeling with its intensity, strategy."""
    named = named_labels(parsed)
    if "emotion" in named and "intensity" in named:
        named["emotion"] += f" {named['intensity']}/5"
    return [named[label] for label in ("stage", "emotion", "strategy") if label in named]


def _check_tags(text: str, inside: list[_Tag]) -> list[Problem]:
    """Each tag once and in order, up to and including the first </think>, and nothing but white space between steps."""
    names = [tag.name for tag in inside]
    problems = []
    if tuple(names) == TAG_SEQUENCE:
        if text[: inside[0].start].strip():
            problems.append(Problem("stray-text", "there is text before <think>"))
        for before, after in zip(inside[::2], inside[1::2], strict=True):  # <think> and <history>, and so on
            if text[before.end : after.start].strip():
                problems.append(Problem("stray-text", f"there is text between <{before.name}> and <{after.name}>"))
        return problems
    counts = Counter(names)
    if not counts["think"]:
        problems.append(Problem("no-think", "there is no <think> block"))
    if not counts["/think"] and counts["think"]:
        problems.append(Problem("unclosed-think", "<think> is never closed"))
    if counts["think"] > 1:
        problems.append(Problem("repeated-think", f"<think> appears {counts['think']} times; it must appear once"))
    for step in STEPS:
        opened, closed = counts[step], counts["/" + step]
        times = max(opened, closed)
        if not times:
            problems.append(Problem("missing-step", f"there is no <{step}> step", step))
        elif times > 1:
            problems.append(Problem("repeated-step", f"<{step}> appears {times} times; it must appear once", step))
        elif not closed:
            problems.append(Problem("unclosed-step", f"<{step}> is never closed", step))
        elif not opened:
            problems.append(Problem("unopened-step", f"</{step}> closes a step that was never opened", step))
    if not problems:
        problems.append(Problem("order", "the steps must be history, emotion, strategy, in this order, not nested"))
    return problems


def _body(text: str, inside: list[_Tag], step: str) -> str | None:
    """What stands inside a step that is opened and closed, with no other tag inside."""
    for opened, closed in pairwise(inside):
        if opened.name == step and closed.name == "/" + step:
            return text[opened.end : closed.start]
    return None


def _read_step(
    step: str, body: str, labels: dict[str, str | int], languages: set[Language], problems: list[Problem]
) -> str:
    """The free text; then the labelled lines of this step must follow, in order, each once, with a valid value."""
    before = len(problems)
    lines = body.split("\n")
    matches = [match_label_line(step, line) for line in lines]
    first = next((number for number, match in enumerate(matches) if match), len(lines))
    free = "\n".join(lines[:first]).strip()
    if not has_words(free):
        free = ""
        problems.append(Problem("empty-step", f"<{step}> has no free text before its labelled lines", step))
    times: Counter[str] = Counter()  # counts its labels in the order of their first lines
    for label, language, written in filter(None, matches):
        languages.add(language)
        if not times[label]:  # the first line counts; further ones are reported as repeated
            value = read_value(label, written, language)
            if value is None:
                problems.append(_invalid(step, label, language, written))
            else:
                labels[label] = value
        times[label] += 1
    for label in LABELS[step]:
        key = KEYS[label]["en"]
        if label not in times:
            problems.append(Problem("missing-label", f"<{step}> has no line '{key}: …'", step))
        elif times[label] > 1:
            problems.append(Problem("repeated-label", f"<{step}> has {times[label]} lines '{key}: …'", step))
    if any(line.strip() for line, match in zip(lines[first:], matches[first:], strict=True) if not match):
        problems.append(Problem("misplaced-text", f"<{step}> has text after its labelled lines", step))
    if len(problems) == before and tuple(times) != LABELS[step]:
        wanted = ", ".join(KEYS[label]["en"] for label in LABELS[step])
        problems.append(Problem("label-order", f"the labelled lines of <{step}> must be {wanted}", step))
    return free


def _invalid(step: str, label: str, language: Language, written: str) -> Problem:
    key = KEYS[label][language]
    shown = repr(written[:40]) if written else "nothing"
    allowed = INTENSITIES if label == "intensity" else [v.name(language) for v in VOCABULARIES[label]]
    few = ", ".join(map(str, allowed[:8])) + (", …" if len(allowed) > 8 else "")
    return Problem("invalid-label", f"'{key}' in <{step}> is {shown}; it must be one of {few}", step)


def _response(text: str, tags: list[_Tag], closing: int | None) -> str:
    """The reply: what follows the thinking, without any tag of ours; the best guess where tags are missing."""
    if closing is not None:
        start = tags[closing].end
    else:
        start = max((tag.end for tag in tags if tag.name == "/strategy"), default=len(text) if tags else 0)
    # a line break instead of each tag: "<th<think>ink>" must not close up to a new one
    return TAG.sub("\n", text[start:]).strip()
