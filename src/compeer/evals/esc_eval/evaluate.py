"""ESC-Eval: role cards, five rounds with a simulated seeker, seven ratings per judge; as an Inspect task and as a run.

The seeker model gets its role from the card, hears a fixed greeting, and from then on the supporter's replies: for it
the supporter is the user. The supporter's history begins with the seeker's first words. Then each judge rates what was
said, the greeting included and the reasoning not, with one greedy call per dimension.

Solver and scorer are module-level and keep everything in the sample's metadata, so that `inspect score` can rate a log
again and every epoch is a dialogue of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import zip_longest
from math import isnan, nan
from pathlib import Path
from typing import Any, Literal

import msgspec
from inspect_ai.dataset import Sample
from inspect_ai.model import Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from compeer.errors import UserError
from compeer.evals import launch, roles
from compeer.evals.esc_eval.ratings import DIMENSIONS, SCALE, averaged, figures, official, proper
from compeer.evals.prompts import Prompts, load_prompts, published, quoted_dialogue
from compeer.evals.provider import role_name
from compeer.evals.result import Finished, Result, Transcript, TranscriptTurn, cases_digest
from compeer.reasoning.ontology import Language
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
    paths = paths or [published(f"esc_eval/{name}", "--cards FILE") for name in FILES]
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


async def rate(
    raters: Sequence[Model], said: list[TranscriptTurn], language: Language, calls: roles.Calls, prompts: Prompts
) -> dict[str, str]:
    """What each judge writes for each dimension, by "judge/dimension"."""
    speakers = _SPEAKERS[language]
    quoted = quoted_dialogue(said, speakers)
    plain = "\n".join(f"{speakers[one.speaker]}{one.text}" for one in said)

    async def one(judge: Model, dimension: str) -> str:
        rubric = prompts.text(f"rubric_{dimension}", language)
        text = prompts.text("judge", language, rubric=rubric, dialogue=quoted, plain=plain)
        fill = {"fill": {"dimension": dimension, "language": language}} if "{" in judge.name else {}
        return await roles.ask_judge(judge, calls, text, **fill)

    asked = [(judge, dimension) for judge in raters for dimension in DIMENSIONS]
    replies = await asyncio.gather(*(one(judge, dimension) for judge, dimension in asked))
    names = [f"{role_name(judge)}/{dimension}" for judge, dimension in asked]
    return dict(zip(names, replies, strict=True))


def finished_dialogue(
    card: RoleCard, said: Sequence[TranscriptTurn], replies: dict[str, str], calls: roles.Calls, by_official: bool
) -> Finished:
    """The dialogue with its scores; ratings without a number are counted."""
    scores: dict[str, float | None] = {
        name: official(reply) if by_official else proper(reply) for name, reply in replies.items()
    }
    unread = sum(score is None or score < 0 for score in scores.values())
    counts = dict(calls.counts) | {"ratings": len(scores), "ratings_without_number": unread}
    about = {"card": card.base, "source": card.source, "topic": card.res}
    about = {name: text for name, text in about.items() if text}
    transcript = Transcript(calls.case, card.tongue, tuple(said), scores, end="rounds", about=about)
    return Finished(transcript, replies, counts)


def sample_of(card: RoleCard) -> Sample:
    return Sample(id=case_id(card), input=card.base, metadata={"card": msgspec.to_builtins(card)})


@solver(name="esc_eval_dialogue")  # type: ignore[untyped-decorator]
def esc_eval_dialogue(settings: dict[str, Any], prompts: str | None = None) -> Solver:
    """Five rounds between the supporter and the seeker of a card; `prompts` is a folder."""
    how, texts = from_plain(settings, roles.RoleSettings), load_prompts("esc_eval", prompts)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        card = from_plain(state.metadata["card"], RoleCard)
        language = card.tongue
        supporter = roles.Supporter(get_model(), roles.begun(state, how), language, texts.text("supporter", language))
        role, greeting = texts.text("seeker", language, card=card.base), texts.text("greeting", language)
        said = await roles.role_play(supporter, get_model(role="seeker", required=True), role, greeting, ROUNDS)
        return roles.played(state, supporter, [TranscriptTurn("supporter", greeting), *said])

    return solve


_METRICS = {"*": [roles.mean_given(), roles.counting("ratings", lambda value: not isnan(value))]}


@scorer(name=roles.registered("esc_eval"), metrics=_METRICS)  # type: ignore[untyped-decorator]
def esc_eval_ratings(
    settings: dict[str, Any] | None = None, prompts: str | None = None, official_parser: bool = False
) -> Scorer:
    """Seven ratings by each judge, in the paper's columns, 0 to 100."""
    how, texts = from_plain(settings or {}, roles.RoleSettings), load_prompts("esc_eval", prompts)

    async def score(state: TaskState, target: Target) -> Score:
        card = from_plain(state.metadata["card"], RoleCard)
        said, calls = roles.said_in(state), roles.begun(state, how)
        raters = roles.judges() or [get_model(role="judge", required=True)]  # raises Inspect's own message
        replies = await rate(raters, said, card.tongue, calls, texts)
        done = finished_dialogue(card, said, replies, calls, official_parser)
        launch.report_finished(done)
        row = averaged(done.transcript, [role_name(judge) for judge in raters])
        given = {DIMENSIONS[key]: nan if value is None else value * SCALE for key, value in row.items()}
        return Score(value=given, metadata={"finished": msgspec.to_builtins(done)})

    return score


def evaluate(
    out: Path,
    model: Model,
    seeker: Model,
    raters: Sequence[Model],
    settings: roles.RoleSettings = roles.RoleSettings(),
    *,
    cards: Sequence[Path] = (),
    exclude: Sequence[str] = (),
    language: Language | None = None,
    prompts: Path | None = None,
    official: bool = False,
    limit: int | None = None,
    **run: Any,
) -> Result:
    """Play all cards, or the first `limit` with the languages in turn; `run` is as for `launch.evaluate`."""
    people = alternating(load_cards(cards, exclude=exclude, language=language), limit)
    texts = load_prompts("esc_eval", prompts)
    how, folder = msgspec.structs.asdict(settings), str(prompts) if prompts else None
    names = [role_name(judge) for judge in raters]
    if not names or len(set(names)) < len(names):
        raise UserError("ESC-Eval needs at least one --judge, each with a name of its own.")
    benchmark = launch.Benchmark(
        name="esc-eval",
        cases=load_cards(cards),
        samples=[sample_of(card) for card in people],
        solver=esc_eval_dialogue(how, folder),
        scorer=esc_eval_ratings(how, folder, official),
        calls_per_sample=2 * ROUNDS + len(DIMENSIONS) * len(raters),
        comparable={
            "prompts": texts.digest(without="supporter"),
            "language": "+".join(sorted({card.tongue for card in people})),
            "cases": f"{len(people)} cards {cases_digest(people)}",
            **({"parser": "official"} if official else {}),
        },
        supporter_prompt=texts.digest(),
        setup={"judges": names, "excluded_sources": list(exclude)},
        figures=lambda done: figures([one.transcript for one in done], names),
        notes=(CAUTION,),
    )
    return launch.evaluate(benchmark, out, model, {"seeker": [seeker], "judge": list(raters)}, settings, **run)
