"""ESC-Eval (Zhao et al. 2024): five rounds with a role-playing seeker, then seven dimensions rated from 0 to 4.

The seeker model gets its role from the card, hears a fixed greeting, and from then on the supporter's replies: for it
the supporter is the user. The supporter's history begins with the seeker's first words. Then each judge rates what was
said, the greeting included and the reasoning not, with one greedy call per dimension.

**Reading a rating.** The official rule takes the first of "0", "1", "2", "3", "4", in that order, that occurs anywhere:
"4 out of 10" is 0, "10" is 0, and a reply without any of them is -1, which goes into the mean. `official` does just
that. `proper` reads the number as a person would and returns None where there is none; such replies are counted and
left out.

**Columns.** Scores from 0 to 4, times 25. Names without a prefix are over all cards and all judges, every judge
counting the same. `en/Fluency` is one language, `openai:gpt-4o/Fluency` one judge, `openai:gpt-4o/en/Fluency` both. The
average is the mean of the seven columns; its interval resamples cards.

Solver and scorer are module-level and keep everything in the sample's metadata, so that `inspect score` can rate a log
again and every epoch is a dialogue of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import zip_longest
from math import isnan
from pathlib import Path
from typing import Any, Literal

import msgspec
from inspect_ai.dataset import Sample
from inspect_ai.model import Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from compeer.errors import UserError
from compeer.evals import launch, roles
from compeer.evals.result import (
    AVERAGE,
    DIMENSIONS,
    RATING_SCALE,
    Finished,
    Transcript,
    TranscriptTurn,
    averaged,
    cases_digest,
    rating_judges,
)
from compeer.reasoning.ontology import Language
from compeer.statistics import Figure, mean_figure
from compeer.typed import from_json, from_plain

CAUTION = (
    "In ESC-Eval's own table GPT-4 agreed with people on 1 to 3 % of the Humanoid and under 2 % of the Overall "
    "judgements; read these two columns of a general judge with that in mind."
)
FILES = ("card_high_en.json", "card_high_zh.json")
ROUNDS = 5
_LANGUAGES: dict[str, Language] = {"english": "en", "chinese": "zh", "en": "en", "zh": "zh"}
_SPEAKERS: dict[Language, dict[str, str]] = {
    "en": {"seeker": "Seeker:", "supporter": "Supporter:"},
    "zh": {"seeker": "求助者：", "supporter": "支持者："},
}

_HAN = {sign: number for number, sign in enumerate("零一二三四五六七八九十")} | {"〇": 0, "两": 2}
_WORDS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4}
_LABEL = re.compile(r"(?:score|rating|评分|得分|分数|打分)\s*(?:is|of|为|是)?\s*[:：=]?\s*", re.IGNORECASE)
#: a number alone: not half of a decimal, a range, a larger number or a negative one
_NUMBER = re.compile(r"(?<![\d.\-–~])(\d+(?:\.\d+)?)(?!\d)")
_RANGE = re.compile(r"\d\s*(?:-|–|~|to|到|至)\s*\d")
_OUT_OF = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/|out of|of)\s*(\d+)", re.IGNORECASE)
_HAN_SCORE = re.compile(r"(?<![第十])([零〇一二两三四])\s*分(?!之)")
_WIDE = str.maketrans("０１２３４５６７８９", "0123456789")


def proper(reply: str) -> int | None:
    """The score a reply states: a whole number from 0 to 4, or None.

    >>> [proper(text) for text in ("3", "Score: 3", "三分", "4 out of 4", "4 out of 10", "I would say two.", "")]
    [3, 3, 3, 4, None, 2, None]
    """
    text = reply.translate(_WIDE).strip()
    if share := _OUT_OF.search(text):
        return _whole(share.group(1)) if share.group(2) == "4" else None  # on another scale it is no answer
    if label := _LABEL.search(text):
        stated = _first(text[label.end() :])
        if stated is not None:
            return stated
    return _only(text)


def official(reply: str) -> int:
    """ESC-Eval's rule.

    >>> [official(text) for text in ("3", "4 out of 10", "三分", "")]
    [3, 0, -1, -1]
    """
    return next((int(digit) for digit in "01234" if digit in reply), -1)


def _first(text: str) -> int | None:
    """The number a text begins with."""
    if number := re.match(r"\W{0,3}(\d+(?:\.\d+)?)", text):
        return _whole(number.group(1))
    if text[:1] in _HAN:
        return _whole(_HAN[text[0]])
    word = re.match(r"\W{0,3}([a-z]+)", text, re.IGNORECASE)
    return _WORDS.get(word.group(1).casefold()) if word else None


def _only(text: str) -> int | None:
    """The one number of a text; two different ones are no answer, and neither is a range."""
    text = _RANGE.sub(" ", text)
    numbers = {_whole(found) for found in _NUMBER.findall(text)}
    numbers |= {_HAN[found] for found in _HAN_SCORE.findall(text)}
    if not numbers and (alone := text.strip("。.!！ \n")) in _HAN:
        return _whole(_HAN[alone])
    numbers = numbers or {_WORDS[word] for word in re.findall(r"[a-z]+", text.casefold()) if word in _WORDS}
    return numbers.pop() if len(numbers) == 1 else None


def _whole(number: str | int) -> int | None:
    value = float(number)
    return int(value) if value.is_integer() and 0 <= value <= 4 else None


def figures(transcripts: Sequence[Transcript]) -> tuple[Figure, ...]:
    """Over everything first; then by language, by judge and by both, where there are several."""
    judges = rating_judges(transcripts)
    languages = sorted({one.language for one in transcripts})
    parts: dict[str, Sequence[Transcript]] = {"": transcripts}
    if len(languages) > 1:
        parts |= {f"{name}/": [one for one in transcripts if one.language == name] for name in languages}
    found = [figure for prefix, part in parts.items() for figure in columns(part, judges, prefix)]
    for judge in judges if len(judges) > 1 else ():
        for prefix, part in parts.items():
            found += columns(part, [judge], f"{judge}/{prefix}")
    return tuple(found)


def columns(transcripts: Sequence[Transcript], judges: Sequence[str], prefix: str = "") -> list[Figure]:
    """Seven columns and their mean. A column without any number is left out, and then the mean too."""
    rows = [averaged(one, judges) for one in transcripts]
    given = {key: [score for row in rows if (score := row[key]) is not None] for key in DIMENSIONS}
    seven = [mean_figure(prefix + DIMENSIONS[key], each, scale=RATING_SCALE) for key, each in given.items() if each]
    if len(seven) < len(DIMENSIONS):
        return seven
    complete = [[score for score in row.values() if score is not None] for row in rows if None not in row.values()]
    spread = mean_figure(AVERAGE, [sum(scores) / len(scores) for scores in complete], scale=RATING_SCALE)
    average = sum(figure.value or 0.0 for figure in seven) / len(seven)
    return [*seven, Figure(prefix + AVERAGE, average, spread.low, spread.high, len(rows))]


class RoleCard(msgspec.Struct, frozen=True):
    """One person, in the fields of the released files."""

    id: int | str
    base: str  # age, gender, occupation, problem
    language: Literal["english", "chinese", "en", "zh"]
    source: str = ""
    res: str = ""  # the topic

    @property
    def tongue(self) -> Language:
        return _LANGUAGES[self.language]

    @property
    def case(self) -> str:
        """Its name in a run: `en-7`."""
        return f"{self.tongue}-{self.id}"


def load_cards(
    paths: Sequence[Path] = (), *, exclude: Sequence[str] = (), language: Language | None = None
) -> list[RoleCard]:
    """The cards of some files; by default both released ones below $COMPEER_DATA. `exclude` names sources."""
    paths = paths or [roles.published(f"esc_eval/{name}", "--cards FILE") for name in FILES]
    cards = [card for path in paths for card in _read(path)]
    sources = {card.source.casefold(): card.source for card in cards}
    if strange := [name for name in exclude if name.casefold() not in sources]:
        raise UserError(f"No card comes from {', '.join(strange)}. Sources: {', '.join(sorted(sources.values()))}.")
    left_out = {name.casefold() for name in exclude}
    kept = [card for card in cards if card.source.casefold() not in left_out and language in (None, card.tongue)]
    names = [card.case for card in kept]
    if len(set(names)) < len(names):
        raise UserError(f"The card {max(names, key=names.count)} occurs twice; give each file once.")
    if not kept:
        raise UserError("No card is left. Check --exclude-source and --language.")
    return kept


def alternating(cards: Sequence[RoleCard], limit: int | None = None) -> list[RoleCard]:
    """The cards with the languages taking turns, so that a short run meets both; the first `limit` of them."""
    queues = [[card for card in cards if card.tongue == language] for language in ("en", "zh")]
    turns = [card for pair in zip_longest(*queues) for card in pair if card is not None]
    return turns[:limit]


def _read(path: Path) -> list[RoleCard]:
    try:
        return from_json(path.read_bytes(), list[RoleCard])
    except FileNotFoundError:
        raise UserError(f"{path} does not exist. --cards takes a JSON list of ESC-Eval's role cards.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a list of role cards: {error}.") from None


async def rate(
    raters: Sequence[Model],
    said: list[TranscriptTurn],
    language: Language,
    calls: roles.Calls,
    prompts: roles.Prompts,
) -> dict[str, str]:
    """What each judge writes for each dimension, by "judge/dimension"."""
    speakers = _SPEAKERS[language]
    quoted = roles.quoted_dialogue(said, speakers)
    plain = "\n".join(f"{speakers[one.speaker]}{one.text}" for one in said)

    async def one(judge: Model, dimension: str) -> str:
        rubric = prompts.text(f"rubric_{dimension}", language)
        text = prompts.text("judge", language, rubric=rubric, dialogue=quoted, plain=plain)
        fill = {"fill": {"dimension": dimension, "language": language}} if "{" in judge.name else {}
        return await roles.ask_judge(judge, calls, text, **fill)

    asked = [(judge, dimension) for judge in raters for dimension in DIMENSIONS]
    replies = await asyncio.gather(*(one(judge, dimension) for judge, dimension in asked))
    names = [f"{roles.role_name(judge)}/{dimension}" for judge, dimension in asked]
    return dict(zip(names, replies, strict=True))


@solver(name="esc_eval_dialogue")  # type: ignore[untyped-decorator]
def esc_eval_dialogue(settings: dict[str, Any], prompts: str | None = None) -> Solver:
    """Five rounds between the supporter and the seeker of a card; `prompts` is a folder."""
    how, texts = from_plain(settings, roles.RoleSettings), roles.load_prompts("esc_eval", prompts)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        card = from_plain(state.metadata["card"], RoleCard)
        language = card.tongue
        supporter = roles.Supporter(
            get_model(), roles.calls_of(state, how), language, texts.text("supporter", language)
        )
        role, greeting = texts.text("seeker", language, card=card.base), texts.text("greeting", language)
        said = await roles.role_play(supporter, get_model(role="seeker", required=True), role, greeting, ROUNDS)
        return roles.save_dialogue(state, supporter, [TranscriptTurn("supporter", greeting), *said])

    return solve


_METRICS = {"*": [roles.mean_given(), roles.counting("ratings", lambda value: not isnan(value))]}


@scorer(name=roles.registered("esc_eval"), metrics=_METRICS)  # type: ignore[untyped-decorator]
def esc_eval_ratings(
    settings: dict[str, Any] | None = None, prompts: str | None = None, official_parser: bool = False
) -> Scorer:
    """Seven ratings by each judge, in the paper's columns, 0 to 100."""
    how, texts = from_plain(settings or {}, roles.RoleSettings), roles.load_prompts("esc_eval", prompts)
    read = official if official_parser else proper

    async def score(state: TaskState, target: Target) -> Score:
        card = from_plain(state.metadata["card"], RoleCard)
        said, calls = roles.saved_dialogue(state), roles.calls_of(state, how)
        raters = roles.judges() or [get_model(role="judge", required=True)]  # raises Inspect's own message
        replies = await rate(raters, said, card.tongue, calls, texts)
        scores: dict[str, float | None] = {name: read(reply) for name, reply in replies.items()}
        unread = sum(score is None or score < 0 for score in scores.values())
        counts = calls.counts | {"ratings": len(scores), "ratings_without_number": unread}
        about = {"card": card.base, "source": card.source, "topic": card.res}
        about = {name: text for name, text in about.items() if text}
        transcript = Transcript(calls.case, card.tongue, tuple(said), scores, end="rounds", about=about)
        row = averaged(transcript, rating_judges([transcript]))
        given = {DIMENSIONS[key]: None if value is None else value * RATING_SCALE for key, value in row.items()}
        return launch.finished_score(Finished(transcript, replies, counts), given)

    return score


def benchmark(
    settings: roles.RoleSettings = roles.RoleSettings(),
    *,
    cards: Sequence[Path] = (),
    exclude: Sequence[str] = (),
    language: Language | None = None,
    prompts: str | Path | None = None,
    official: bool = False,
    limit: int | None = None,
) -> launch.Benchmark:
    """All cards, or the first `limit` with the languages in turn. Roles: seeker, judge."""
    people = alternating(load_cards(cards, exclude=exclude, language=language), limit)
    texts = roles.load_prompts("esc_eval", prompts)
    how, folder = msgspec.structs.asdict(settings), str(prompts) if prompts else None
    return launch.Benchmark(
        name="esc-eval",
        settings=settings,
        cases=load_cards(cards),
        samples=[Sample(id=one.case, input=one.base, metadata={"card": msgspec.to_builtins(one)}) for one in people],
        solver=esc_eval_dialogue(how, folder),
        scorer=esc_eval_ratings(how, folder, official),
        calls_per_sample=2 * ROUNDS,
        calls_per_judge=len(DIMENSIONS),
        comparable={
            "prompts": texts.digest(without="supporter"),
            "language": "+".join(sorted({card.tongue for card in people})),
            "cases": f"{len(people)} cards {cases_digest(people)}",
            **({"parser": "official"} if official else {}),
        },
        supporter_prompt=texts.digest(),
        figures=lambda done: figures([one.transcript for one in done]),
        notes=(CAUTION, *([f"Cards made from {', '.join(exclude)} are left out."] if exclude else [])),
    )
