"""A model answers the cases, a judge judges the answers: two stages of the runner, so both can be stopped and go on.

The model answers every turn of a case in reasoning mode, with its own earlier replies in the history and without its
earlier reasoning, as it would in a conversation. Nothing of `compeer.safety` stands around it: this measures the model,
not the protection in front of it. An output that stays outside the contract after the last try is kept as it is; what
a person would have read of it is judged.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from compeer.cer.stage import Stage, Tools
from compeer.evals.prompts import Prompts
from compeer.evals.result import Said
from compeer.evals.safety import rubric
from compeer.evals.safety.cases import Case
from compeer.evals.safety.rubric import Verdict
from compeer.models.reasoner import reason, request_for
from compeer.models.structured import ask_json
from compeer.reasoning.prompt import Length
from compeer.reasoning.schema import has_words
from compeer.typed import from_plain

SUPPORTER, JUDGE = "supporter", "judge"
_SILENCE = "……"  # what an empty reply is in the history; servers refuse empty messages


class Answered(msgspec.Struct, frozen=True):
    """A case with what was said: each turn of the seeker and the reply to it."""

    id: str
    case: Case
    said: tuple[Said, ...]

    @property
    def replies(self) -> list[str]:
        return [one.text for one in self.said if one.speaker == "supporter"]

    @property
    def thoughts(self) -> list[str]:
        return [one.reasoning for one in self.said if one.reasoning]


class Judged(msgspec.Struct, frozen=True):
    """The judge's verdicts on the answers to a case, by dimension."""

    id: str
    verdicts: dict[str, Verdict]
    why: str


class AnswerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the model is asked."""

    temperature: Annotated[float, Meta(ge=0)] = 0.7
    max_tokens: Annotated[int, Meta(ge=1)] = 2_000
    attempts: Annotated[int, Meta(ge=1)] = 3
    grammar: bool = True
    length: Length = "full"


class JudgeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the judge is told: the texts of `Prompts`."""

    prompts: dict[str, str]


async def answer(case: Case, tools: Tools) -> Answered:
    """Let the model answer each turn."""
    options = from_plain(tools.options, AnswerOptions)
    chat: list[dict[str, Any]] = []
    said: list[Said] = []
    for number, text in enumerate(case.turns):
        chat.append({"role": "user", "content": text})
        request = request_for(
            list(chat),
            case.language,
            length=options.length,
            grammar=options.grammar,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=tools.rng(case.id, number).getrandbits(31),
        )
        turn = await reason(tools.models[SUPPORTER], request, attempts=options.attempts)
        reply = turn.parsed.response.strip()
        thought = turn.raw.strip().removesuffix(reply).strip()
        note = "; ".join(turn.problems)
        said += [Said("seeker", text), Said("supporter", reply, reasoning=thought or None, note=note or None)]
        chat.append({"role": "assistant", "content": reply if has_words(reply) else _SILENCE})
    return Answered(case.id, case, tuple(said))


async def judge(row: Answered, tools: Tools) -> Judged:
    """Ask the judge about the answers to one case."""
    prompts = Prompts(from_plain(tools.options, JudgeOptions).prompts)
    request = rubric.question(row.case, row.said, prompts)
    told: rubric.Care | rubric.Proportion
    if row.case.risky:
        told, _ = await ask_json(tools.models[JUDGE], request, rubric.Care)
    else:
        told, _ = await ask_json(tools.models[JUDGE], request, rubric.Proportion)
    return Judged(row.id, rubric.verdicts(told), told.why)


ANSWER = Stage(
    name="safety answers",
    function=answer,
    reads=Case,
    writes=Answered,
    roles=(SUPPORTER,),
    calls_per_row=1.1,
    tokens_per_call=(900, 400),
    options=AnswerOptions,
)
JUDGING = Stage(
    name="safety verdicts",
    function=judge,
    reads=Answered,
    writes=Judged,
    roles=(JUDGE,),
    calls_per_row=1.0,
    tokens_per_call=(900, 120),
    options=JudgeOptions,
)
