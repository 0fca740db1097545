"""ESC-Eval: role cards, five rounds with a simulated seeker, seven ratings per judge; as an Inspect task and as a run.

The seeker model gets its role from the card, hears a fixed greeting, and from then on the supporter's replies: for it
the supporter is the user. The supporter's history begins with the seeker's first words. Then each judge rates what was
said, the greeting included and the reasoning not, with one greedy call per dimension.

Solver and scorer are module-level and keep everything in the sample's metadata, so that `inspect score` can rate a log
again and every epoch is a dialogue of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from itertools import zip_longest
from math import isnan, nan
from pathlib import Path
from typing import Any, Literal

import msgspec
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    Model,
    get_model,
    model_roles,
)
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from compeer.errors import UserError
from compeer.evals import launch
from compeer.evals.esc_eval.ratings import DIMENSIONS, SCALE, averaged, figures, official, proper
from compeer.evals.prompts import Prompts, load_prompts, quoted_dialogue
from compeer.evals.provider import role_name
from compeer.evals.result import Finished, Result, Transcript, TranscriptTurn, cases_digest
from compeer.evals.roles import SILENCE, Calls, RoleSettings, Supporter, ask_seeker, case_name, shown_in_inspect
from compeer.reasoning import parse
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import has_words
from compeer.typed import from_json, from_plain

CAUTION = (
    "In ESC-Eval's own table GPT-4 agreed with people on 1 to 3 % of the Humanoid and under 2 % of the Overall "
    "judgements; read these two columns of a general judge with that in mind."
)
FILES = ("card_high_en.json", "card_high_zh.json")
_LANGUAGES: dict[str, Language] = {"english": "en", "chinese": "zh", "en": "en", "zh": "zh"}


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


def load_cards(
    paths: Sequence[Path] = (), *, exclude: Sequence[str] = (), language: Language | None = None
) -> list[RoleCard]:
    """The cards of some files; by default both released ones below $COMPEER_DATA. `exclude` names sources."""
    if not paths:
        data = os.environ.get("COMPEER_DATA")
        if not data:
            raise UserError(
                "ESC-Eval's role cards do not come with this program. Give --cards FILE (one per language, JSON of the "
                f"ESC-Eval repository), or set COMPEER_DATA to a folder that has esc_eval/{FILES[0]} and {FILES[1]}."
            )
        paths = [Path(data) / "esc_eval" / name for name in FILES]
    cards = [card for path in paths for card in _read(path)]
    sources = {card.source.casefold(): card.source for card in cards}
    if strange := [name for name in exclude if name.casefold() not in sources]:
        raise UserError(f"No card comes from {', '.join(strange)}. Sources: {', '.join(sorted(sources.values()))}.")
    left_out = {name.casefold() for name in exclude}
    kept = [card for card in cards if card.source.casefold() not in left_out and language in (None, card.tongue)]
    names = [case_id(card) for card in kept]
    if len(set(names)) < len(names):
        raise UserError(f"The card {max(names, key=names.count)} occurs twice; give each file once.")
    if not kept:
        raise UserError("No card is left. Check --exclude-source and --language.")
    return kept


def case_id(card: RoleCard) -> str:
    """The name of a card in a run.

    >>> case_id(RoleCard(id=7, base="", language="english"))
    'en-7'
    """
    return f"{card.tongue}-{card.id}"


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


ROUNDS = 5
_SPEAKERS: dict[Language, dict[str, str]] = {
    "en": {"seeker": "Seeker:", "supporter": "Supporter:"},
    "zh": {"seeker": "求助者：", "supporter": "支持者："},
}


async def converse(
    supporter: Supporter, seeker: Model, card: RoleCard, calls: Calls, prompts: Prompts
) -> list[TranscriptTurn]:
    """The greeting and ten utterances."""
    language = card.tongue
    greeting = prompts.text("greeting", language)
    heard: list[ChatMessage] = [
        ChatMessageSystem(content=prompts.text("seeker", language, card=card.base)),
        ChatMessageUser(content=greeting),
    ]
    said = [TranscriptTurn("supporter", greeting)]
    for _ in range(ROUNDS):
        words = await ask_seeker(seeker, calls, list(heard))
        words = words if has_words(words) else SILENCE
        reply = await supporter.answer(words)
        said += [TranscriptTurn("seeker", words), reply]
        heard += [ChatMessageAssistant(content=words), ChatMessageUser(content=reply.text)]
    return said


async def rate(
    judges: Sequence[Model], said: list[TranscriptTurn], language: Language, calls: Calls, prompts: Prompts
) -> dict[str, str]:
    """What each judge writes for each dimension, by "judge/dimension"."""
    speakers = _SPEAKERS[language]
    quoted = quoted_dialogue(said, speakers)
    plain = "\n".join(f"{speakers[one.speaker]}{one.text}" for one in said)

    async def one(judge: Model, dimension: str) -> str:
        rubric = prompts.text(f"rubric_{dimension}", language)
        text = prompts.text("judge", language, rubric=rubric, dialogue=quoted, plain=plain)
        raw = await calls.ask(
            judge,
            [ChatMessageUser(content=text)],
            temperature=0.0,
            max_tokens=calls.settings.judge_tokens,
            **({"fill": {"dimension": dimension, "language": language}} if "{" in judge.name else {}),
        )
        return parse(raw).response

    asked = [(judge, dimension) for judge in judges for dimension in DIMENSIONS]
    replies = await asyncio.gather(*(one(judge, dimension) for judge, dimension in asked))
    names = [f"{role_name(judge)}/{dimension}" for judge, dimension in asked]
    return dict(zip(names, replies, strict=True))


def finished_dialogue(
    case: str, card: RoleCard, said: Sequence[TranscriptTurn], replies: dict[str, str], calls: Calls, by_official: bool
) -> Finished:
    """The dialogue with its scores; ratings without a number are counted."""
    scores: dict[str, float | None] = {
        name: official(reply) if by_official else proper(reply) for name, reply in replies.items()
    }
    unread = sum(score is None or score < 0 for score in scores.values())
    counts = dict(calls.counts) | {"ratings": len(scores), "ratings_without_number": unread}
    about = {"card": card.base, "source": card.source, "topic": card.res}
    about = {name: text for name, text in about.items() if text}
    return Finished(Transcript(case, card.tongue, tuple(said), scores, end="rounds", about=about), replies, counts)


def esc_eval_task(
    samples: list[Sample], settings: RoleSettings, prompts: str | None = None, *, official_parser: bool = False
) -> Task:
    """The Inspect task over samples from `sample_of`; `prompts` is a folder."""
    how = msgspec.structs.asdict(settings)
    return Task(
        dataset=MemoryDataset(samples),
        solver=esc_eval_dialogue(how, prompts),
        scorer=esc_eval_ratings(how, prompts, official_parser),
        name="esc_eval",
    )


def sample_of(card: RoleCard) -> Sample:
    return Sample(id=case_id(card), input=card.base, metadata={"card": msgspec.to_builtins(card)})


@solver(name="esc_eval_dialogue")  # type: ignore[untyped-decorator]
def esc_eval_dialogue(settings: dict[str, Any], prompts: str | None = None) -> Solver:
    """Five rounds between the supporter and the seeker of a card."""
    how, texts = from_plain(settings, RoleSettings), load_prompts("esc_eval", prompts)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        card = from_plain(state.metadata["card"], RoleCard)
        calls = Calls(case_name(state), how)
        supporter = Supporter(get_model(), calls, card.tongue, texts.text("supporter", card.tongue))
        said = await converse(supporter, get_model(role="seeker", required=True), card, calls, texts)
        state.metadata |= {"said": msgspec.to_builtins(said), "counts": dict(calls.counts)}
        return shown_in_inspect(state, supporter)

    return solve


@metric  # type: ignore[untyped-decorator]
def mean_given() -> Metric:
    """The mean of the ratings that had a number."""

    def mean_of(scores: list[SampleScore]) -> float:
        given = [value for one in scores if not isnan(value := one.score.as_float())]
        return sum(given) / len(given) if given else nan

    return mean_of


@metric  # type: ignore[untyped-decorator]
def ratings() -> Metric:
    """How many ratings had a number."""

    def count(scores: list[SampleScore]) -> int:
        return sum(not isnan(one.score.as_float()) for one in scores)

    return count


@scorer(name="esc_eval", metrics={"*": [mean_given(), ratings()]})  # type: ignore[untyped-decorator]
def esc_eval_ratings(
    settings: dict[str, Any] | None = None, prompts: str | None = None, official_parser: bool = False
) -> Scorer:
    """Seven ratings by each judge, in the paper's columns, 0 to 100."""
    how, texts = from_plain(settings or {}, RoleSettings), load_prompts("esc_eval", prompts)

    async def score(state: TaskState, target: Target) -> Score:
        card = from_plain(state.metadata["card"], RoleCard)
        said = from_plain(state.metadata["said"], list[TranscriptTurn])
        calls = Calls(case_name(state), how, state.metadata["counts"])
        judges = _judges()
        replies = await rate(judges, said, card.tongue, calls, texts)
        done = finished_dialogue(case_name(state), card, said, replies, calls, official_parser)
        launch.report_finished(done)
        row = averaged(done.transcript, [role_name(judge) for judge in judges])
        given = {DIMENSIONS[key]: nan if value is None else value * SCALE for key, value in row.items()}
        return Score(value=given, metadata={"finished": msgspec.to_builtins(done)})

    return score


def _judges() -> list[Model]:
    found: Any = model_roles().get("judge")
    if found is None:
        return [get_model(role="judge", required=True)]  # raises Inspect's own message
    return list(found) if isinstance(found, list) else [found]


def evaluate(
    out: Path,
    model: Model,
    seeker: Model,
    judges: Sequence[Model],
    settings: RoleSettings = RoleSettings(),
    *,
    cards: Sequence[Path] = (),
    exclude: Sequence[str] = (),
    language: Language | None = None,
    prompts: Path | None = None,
    official: bool = False,
    limit: int | None = None,
    name: str | None = None,
    fresh: bool = False,
    quiet: bool = False,
) -> Result:
    """Play all cards, or the first `limit` with the languages in turn; run again to continue after an interruption."""
    people = alternating(load_cards(cards, exclude=exclude, language=language), limit)
    texts = load_prompts("esc_eval", prompts)
    names = [role_name(judge) for judge in judges]
    if not names or len(set(names)) < len(names):
        raise UserError("ESC-Eval needs at least one --judge, each with a name of its own.")
    comparable = {
        "simulator": role_name(seeker),
        "judge": " + ".join(names),
        "prompts": texts.digest(without="supporter"),
        "language": "+".join(sorted({card.tongue for card in people})),
        "cases": f"{len(people)} cards {cases_digest(people)}",
        **({"parser": "official"} if official else {}),
        **launch.non_default(settings, ("seeker_temperature", "seeker_tokens", "judge_tokens")),
    }
    supporter = {"model": role_name(model), "supporter_prompt": texts.digest()}
    benchmark = launch.Benchmark(
        name="esc-eval",
        samples=[sample_of(card) for card in people],
        task=lambda left: esc_eval_task(left, settings, str(prompts) if prompts else None, official_parser=official),
        calls_per_sample=2 * ROUNDS + len(DIMENSIONS) * len(judges),
        comparable=comparable,
        # the language and the number of cards may change: part of the cards may become all of them
        identity={**comparable, **supporter, "cases": cases_digest(load_cards(cards)), "language": None},
        setup={**supporter, "judges": names, "excluded_sources": list(exclude)},
        figures=lambda transcripts: figures(transcripts, names),
        notes=(CAUTION,),
    )
    roles: dict[str, Model | list[Model]] = {"seeker": seeker, "judge": list(judges)}
    told = name or role_name(model)
    return launch.evaluate(benchmark, out, model, roles, settings, name=told, fresh=fresh, quiet=quiet)
