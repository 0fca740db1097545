"""One ESC-Eval dialogue: exactly five rounds, then each judge one greedy call a dimension.

The seeker model gets its role with the card, hears a fixed greeting, and from then on the supporter's replies: for it
the supporter is the user. The supporter's history begins with the seeker's first words. The judges read what was
said, the greeting included, and none of the reasoning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, Model

from compeer.evals.esc_eval.card import DIMENSIONS, Card, case_id
from compeer.evals.esc_eval.scores import official, proper
from compeer.evals.prompts import Prompts
from compeer.evals.provider import role_name
from compeer.evals.result import Finished, Said, Transcript
from compeer.evals.roles import SILENCE, Calls, Supporter, ask_seeker
from compeer.reasoning import parse
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import has_words
from compeer.reward.conversation import quote

ROUNDS = 5
_SPEAKERS: dict[Language, dict[str, str]] = {
    "en": {"seeker": "Seeker:", "supporter": "Supporter:"},
    "zh": {"seeker": "求助者：", "supporter": "支持者："},
}


async def converse(supporter: Supporter, seeker: Model, card: Card, calls: Calls, prompts: Prompts) -> list[Said]:
    """The greeting and ten utterances."""
    language = card.tongue
    greeting = prompts.text("greeting", language)
    heard: list[ChatMessage] = [
        ChatMessageSystem(content=prompts.text("seeker", language, card=card.base)),
        ChatMessageUser(content=greeting),
    ]
    said = [Said("supporter", greeting)]
    for _ in range(ROUNDS):
        words = await ask_seeker(seeker, calls, list(heard))
        words = words if has_words(words) else SILENCE
        reply = await supporter.answer(words)
        said += [Said("seeker", words), reply]
        heard += [ChatMessageAssistant(content=words), ChatMessageUser(content=reply.text)]
    return said


async def rate(
    judges: Sequence[Model], said: list[Said], language: Language, calls: Calls, prompts: Prompts
) -> dict[str, str]:
    """What each judge writes for each dimension, by "judge/dimension"."""
    speakers = _SPEAKERS[language]
    quoted = "\n".join(f"{speakers[one.speaker]}\n{quote(one.text)}" for one in said)
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


def finished(card: Card, said: list[Said], replies: dict[str, str], calls: Calls, *, by_official: bool) -> Finished:
    """The sample with its scores; replies without a number are counted."""
    scores: dict[str, float | None] = {}
    for name, reply in replies.items():
        scores[name] = official(reply) if by_official else proper(reply)
    unread = sum(score is None or score < 0 for score in scores.values())
    counts = dict(calls.counts) | {"ratings": len(scores), "ratings_without_number": unread}
    about = {"card": card.base, "source": card.source, "topic": card.res}
    transcript = Transcript(
        id=case_id(card),
        language=card.tongue,
        said=tuple(said),
        scores=scores,
        end="rounds",
        about={name: text for name, text in about.items() if text},
    )
    return Finished(transcript, replies, counts)
