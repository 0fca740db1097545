"""Talking with a model: one turn engine, and what speaks through it in a terminal and over HTTP.

engine        one turn: history, control, model, safety; typed events and a result
small_talk    hellos, thanks, goodbyes: prepared words where the model is too small for them
session       a conversation in memory: turns, pins, asking again, editing a step, saving
display       an answer as a person reads it; terminal text made harmless and wrapped
terminal      `compeer chat` and `--once`
requests      OpenAI's requests, and the turn each asks for
replies       an answer in OpenAI's form, whole or streamed
responses     the same for OpenAI's Responses API, and the conversations it continues
server        `compeer serve`: the endpoints, who waits, metrics
"""

from __future__ import annotations

from compeer.conversation.engine import Sampling, TurnRequest, TurnResult, answer, sampling_for
from compeer.conversation.session import AnsweredTurn, ChatSession, ChatSettings
from compeer.conversation.terminal import answer_once, talk

__all__ = [
    "AnsweredTurn",
    "ChatSession",
    "ChatSettings",
    "Sampling",
    "TurnRequest",
    "TurnResult",
    "answer",
    "answer_once",
    "sampling_for",
    "talk",
]
