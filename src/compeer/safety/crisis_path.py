"""The crisis path: what we say at high risk, step by step, in reviewed words.

The steps are those that crisis lines teach: desire (are you thinking about killing yourself?), intent and capability
(a plan, means in reach, safe right now?), buffers (who is near?). At each turn the path

1. picks the situation from the conversation: something taken, means at hand, a dangerous place, a first disclosure, an
   answer to our question, a refusal to call, a joke after a disclosure, someone else in danger, a child who is
   hurt, ...;
2. chooses one of the replies for it in `data/crisis_replies.jsonl` that was not used in this conversation, first one
   that asks what has not been answered yet;
3. fills in the emergency number and the line.

It never refuses and never ends the conversation, and it comes back to the question until it is answered. It keeps no
state of its own: which replies were used, what they asked and what was answered is read from the conversation, so that
a server that remembers nothing goes on where it was.

The replies were written by language models and read by others of them; no clinician has seen them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

import msgspec

from compeer.safety.answers import Question
from compeer.safety.context import Act, Reading, heard_in, questions_in
from compeer.safety.helplines import Help
from compeer.safety.levels import DANGER_OF, DATA, SUSPECTED, Risk, at_least
from compeer.safety.screen import OWN
from compeer.typed import from_json

#: the order in which things are asked
STEPS: tuple[Question, ...] = ("desire", "plan", "means", "safe_now", "who_is_near")
_BY_ACT: dict[Act, str] = {
    "refuses_to_call": "refuses to call",
    "refuses_to_say_where": "refuses to say where",
    "wants_secrecy": "wants secrecy",
    "angry": "angry at being asked",
    "wants_to_be_stopped": "wants to be talked out of it",
    "joking": "joking afterwards",
    "leaving": "goodbye after calmer",
    "calmer": "calmer now",
    "thanks": "thanks",
    "few_words": "silence or one word",
}
#: acts that are answered as such even in an emergency
_URGENT_ACTS: tuple[Act, ...] = ("refuses_to_call", "refuses_to_say_where", "wants_secrecy")
_OTHER_DANGER = {
    "child_abuse": "child being hurt",
    "partner_violence": "partner violence",
    "violence_to_others": "violent urge against others",
}
_LAST_QUESTION = re.compile(r"[^.!。！?？；;:：]*[?？]")
_SAFE = re.compile(r"\bsafe|which is it|well (?:back|away)|move away|安全|方便|哪一种|走开|够远", re.IGNORECASE)
_AWAY = re.compile(r"distance|away from|able to do that|远了|远一点|退开", re.IGNORECASE)
_DIRECT = frozenset({"desire", "safe_now", "plan", "means", "taken"})
#: messages after which an unanswered question comes again at watch
ASK_AGAIN = 3
#: times that the question is asked at watch where words of danger go on
MOST_ASKED_AT_WATCH = 4
#: what makes little of a message in which a danger is named
_LIGHT: tuple[Act, ...] = ("thanks", "leaving", "calmer", "few_words", "joking", "angry", "refuses_to_call")


class PathReply(msgspec.Struct, frozen=True):
    """A reply of ours: a line of `data/crisis_replies.jsonl`, where `text` has the slots {emergency} and {line}, or
    that line with the slots filled. `asks`: the question in it."""

    id: str
    language: Literal["en", "zh"]
    situation: str
    asks: Question | Literal["none"]
    text: str


class Exchange(NamedTuple):
    """A message of the person as it was read, and what they were answered ("" where nothing was)."""

    reading: Reading
    reply: str


@cache
def rows() -> tuple[PathReply, ...]:
    """Every reply, with its slots."""
    text = (DATA / "crisis_replies.jsonl").read_text(encoding="utf-8")
    return tuple(from_json(line, PathReply) for line in text.splitlines() if line.strip())


def row_of(reply: str) -> PathReply | None:
    """Which of our replies a text contains, whatever stands in its slots."""
    for row, pieces in _pieces():
        if pieces[0] in reply and all(piece in reply for piece in pieces):
            return row
    return None


class _Replies:
    """Our replies in the language of a conversation, and which of them it has seen."""

    def __init__(self, past: Sequence[Exchange], help: Help, language: str) -> None:
        self.rows = [row for row in rows() if row.language == ("zh" if language == "zh" else "en")]
        self.used = [row for exchange in past if (row := row_of(exchange.reply))]
        self._help = help

    def fresh(self, situation: str) -> list[PathReply]:
        """Those for a situation that were not used yet."""
        return [row for row in self.rows if row.situation == situation and row not in self.used]

    def filled(self, row: PathReply) -> PathReply:
        line = self._help.lines[0].short() if self._help.country else self._help.directory
        text = row.text.replace("{emergency}", self._help.emergency).replace("{line}", line)
        return msgspec.structs.replace(row, text=text)

    def longest_ago(self, fitting: Sequence[PathReply]) -> PathReply:
        """The one whose last use lies furthest back."""
        return self.filled(
            min(fitting, key=lambda row: max((n for n, one in enumerate(self.used) if one == row), default=-1))
        )


def asked_by(reply: str, worried: bool = True) -> tuple[Question, ...]:
    """What a reply asks about safety: of ours it is known, others are read (`context.questions_in`, `heard_in`)."""
    row = row_of(reply)
    if row is None:
        return questions_in(reply, worried) or heard_in(reply, worried)
    last = _LAST_QUESTION.findall(row.text)[-1:]
    if row.asks == "safe_now" and last and not _SAFE.search(last[0]):
        return ("in_danger",)  # "Could it happen again today?": here yes is the alarming answer
    if row.asks == "means" and last and _AWAY.search(last[0]):
        return ("safe_now",)  # "Are you away from it?": here no is
    return questions_in(row.text) if row.asks == "none" else (row.asks,)


def next_reply(past: Sequence[Exchange], reading: Reading, risk: Risk, help: Help, language: str) -> PathReply:
    """What we say now. `past`: earlier messages and replies; `reading`: the new message; `risk`: with it."""
    replies, wanted = _Replies(past, help, language), _open_steps(past, reading, risk)
    fitting = situations(past, reading, risk)
    for situation in fitting:
        fresh = replies.fresh(situation)
        if situation == "asked and said no":
            fresh = [row for row in fresh if row.asks != "none"]  # at high risk a no is not the end of asking
        if fresh:
            return replies.filled(min(fresh, key=lambda row: _rank(row.asks, wanted)))
    return replies.longest_ago([row for row in replies.rows if row.situation in fitting] or replies.rows)


def watch_reply(past: Sequence[Exchange], risk: Risk, help: Help, language: str) -> PathReply:
    """What we say at watch, where no model may speak: the gentle question, then what an answer to it calls for, then
    listening. Unanswered, the question comes again after `ASK_AGAIN` messages."""
    question = gentle_question(past, risk, help, language)
    if question is not None:
        return question
    replies, newest = _Replies(past, help, language), past[-1].reading
    since = next((n for n, one in enumerate(reversed(past)) if _DIRECT & set(asked_by(one.reply))), len(past))
    wanted = []
    if newest.plainly_no and since <= 1:
        wanted.append("asked and said no")
    elif newest.names_danger and not risk.asked and _times_asked(past) < MOST_ASKED_AT_WATCH:
        wanted.append(_at_watch(risk, newest))
    elif newest.kind in ("half a no", "no answer") and "angry" not in newest.acts and _times_asked(past) < 2:
        wanted.append("hint to be asked about")  # it comes again at once, in other words
    acts = ("wants_secrecy",) if newest.names_danger else ("angry", "joking", "wants_secrecy", "leaving", "calmer")
    wanted += [_BY_ACT[act] for act in newest.acts if act in acts]
    if not risk.asked and since > ASK_AGAIN:
        wanted.append(_at_watch(risk, newest))
    if risk.about_other or risk.danger != "suicide":
        wanted.append(_at_watch(risk, newest))
    wanted.append("listening")
    for situation in wanted:
        if fresh := replies.fresh(situation):
            return replies.filled(fresh[0])
    return listening(past, help, language)


#: somebody near to them has died: then no words that ask what happened
_BEREAVED = re.compile(
    r"\b(?:my|our) (?!phone|battery|car|laptop|computer|pc|internet|wifi|plants?|bike|watch|tablet)"
    r"[^.!?\n]{0,40}\b(?:died|passed away|is dead|was buried|funeral)\b"
    r"|\bput (?:him|her|my \w+) to sleep\b|去世|过世|离世|葬礼|出殡|追悼会|没抢救过来",
    re.IGNORECASE,
)


def right_after(message: str) -> str:
    """The situation of words that are right after this message though nothing was found: `bereaved` or `neutral`."""
    return "bereaved" if _BEREAVED.search(message) else "neutral"


def _times_asked(past: Sequence[Exchange]) -> int:
    return sum("desire" in asked_by(one.reply) for one in past)


def listening(past: Sequence[Exchange], help: Help, language: str, situation: str = "listening") -> PathReply:
    """Words that listen, or that are right after anything (`neutral`); the one whose last use lies furthest back."""
    replies = _Replies(past, help, language)
    return replies.longest_ago([row for row in replies.rows if row.situation == situation])


def _at_watch(risk: Risk, reading: Reading | None) -> str:
    """The situation that the question at watch belongs to."""
    if risk.danger != "suicide":
        return _OTHER_DANGER[risk.danger]
    if risk.about_other:
        return "third person in danger"
    if reading and "intake" in reading.finding.kinds:
        return "unclear intake"
    if set(risk.kinds) <= {"vague"}:
        return "vague hint"
    return "past attempt" if reading and reading.finding.past else "hint to be asked about"


def gentle_question(past: Sequence[Exchange], risk: Risk, help: Help, language: str) -> PathReply | None:
    """The question at watch, for when nobody has asked it in this conversation yet. It asks plainly about suicide where
    there is a hint of that, what was taken where that is unclear, and else how the person is."""
    asked = {question for exchange in past for question in asked_by(exchange.reply)}
    replies, situation = _Replies(past, help, language), _at_watch(risk, past[-1].reading if past else None)
    if situation != "unclear intake" or "taken" in asked:
        told = [row.situation for row in replies.used]
        if risk.asked or asked & {"desire", "safe_now"} or (situation == "vague hint" and situation in told):
            return None
    return replies.filled(next(row for row in replies.rows if row.situation == situation))


def situations(past: Sequence[Exchange], reading: Reading, risk: Risk) -> list[str]:
    """Situations that fit, the most fitting first; later ones are for when all replies of the first were used."""
    found: list[str] = []
    finding, acts = reading.finding, reading.acts
    kinds = set(finding.kinds) if at_least(finding.level, "watch") else set()
    danger = risk.danger
    fresh_disclosure = not any(at_least(exchange.reading.finding.level, "high") for exchange in past)
    if "medical" in kinds or ("medical" in risk.kinds and danger == "suicide" and not kinds):
        return ["medical emergency", "third person in danger" if risk.about_other else "still unsafe"]
    if "ingestion" in kinds and not finding.past:
        found.append("third person in danger" if finding.other else "already taken or hurt")
    # who stands on a bridge is told to step back, not to leave a room; who came away from it, neither
    at_hand = {"there": "dangerous place", "left": "came away from there"}.get(_place(past, reading), "means at hand")
    if "means" in kinds and not finding.past and not kinds & set(DANGER_OF):  # who hides is not told to leave the room
        found.append("third person in danger" if finding.other else at_hand)
    if "method" in kinds:
        found.append("asks for a method")
    if risk.level == "emergency":
        found += [_BY_ACT[act] for act in acts if act in _URGENT_ACTS and not risk.about_other]
        if danger == "suicide" and not risk.about_other:
            if acts and acts[0] == "few_words":
                found.append("silence or one word")
            taken = "ingestion" in risk.kinds
            found += [
                *(["already taken or hurt"] if taken else []),
                at_hand,
                "has a plan",
                "still unsafe",
                "refuses to call",
                "silence or one word",
            ]
            return list(dict.fromkeys(found))
    if danger in _OTHER_DANGER and not (
        finding.kinds[:1]
        and finding.kinds[0] in OWN
        and not kinds & set(DANGER_OF)
        and "suicide" in risk.dangers
        and finding.level == "emergency"
    ):
        found += [_BY_ACT[act] for act in acts if act in (*_URGENT_ACTS, "thanks", "leaving")]
        found += [_OTHER_DANGER[danger], "grounding", "wants secrecy", "silence or one word"]
        return list(dict.fromkeys(found))
    if finding.other or risk.about_other:
        found += ["third person in danger", "refuses to call", "thanks"]
        return list(dict.fromkeys(found))
    if finding.level in ("none", "watch") or acts:
        light = _LIGHT if at_least(finding.level, "high") or reading.names_danger else ()
        found += [
            _BY_ACT[act] for act in acts if act in _BY_ACT and act not in light and not (act == "thanks" and kinds)
        ]
    if reading.plainly_no:
        found.append("asked and said no")
    if "plan" in kinds:
        found.append("has a plan")
    if reading.question not in (None, "safe_now", "who_is_near") and reading.answer == "yes":
        found.append("has a plan" if reading.question == "plan" else "asked and said yes")
    if reading.question and reading.answer == "unsure":
        found.append("asked and unsure")
    if finding.past and finding.level == "watch":
        found.append("past attempt")
    if fresh_disclosure and at_least(finding.level, "high"):
        found += ["teenager"] if "teenager" in acts else []
        found.append("hint to be asked about" if kinds <= SUSPECTED else "first disclosure")
    found += ["hint to be asked about"] if fresh_disclosure and finding.level == "watch" else []
    if finding.level == "none" and not reading.answer:
        found.append("follow-up")
    if _open_steps(past, reading, risk)[:1] == ["who_is_near"]:
        found.append("buffers")
    found += ["follow-up", "buffers", "grounding", "first disclosure", "silence or one word", "asked and said yes"]
    return list(dict.fromkeys(found))


def _place(past: Sequence[Exchange], reading: Reading) -> str:
    """Whether they are at a height, at tracks or at water ("there"), or have come away from it ("left"): by the last
    message that names a place or means."""
    came_away = False
    for one in (reading, *(exchange.reading for exchange in reversed(past))):
        if one.place == "there":
            return "left" if came_away else "there"
        came_away = came_away or one.place == "left"
        if {"means", "ingestion"} & set(one.finding.kinds):
            return ""
    return ""


def _open_steps(past: Sequence[Exchange], reading: Reading, risk: Risk) -> list[Question]:
    """Questions that were not answered yet, in order."""
    answered = {one.question for one in (*(exchange.reading for exchange in past), reading) if one.answer}
    if "in_danger" in answered:
        answered.add("safe_now")
    if any(one.said_plainly and at_least(one.finding.level, "high") for one in (*(e.reading for e in past), reading)):
        answered.add("desire")  # whoever writes "I want to kill myself" is not asked whether they think of it
    if "plan" in risk.kinds:
        answered.add("plan")
    if {"means", "ingestion"} & set(risk.kinds):
        answered |= {"means", "plan", "desire"}
    return [step for step in STEPS if step not in answered]


def _rank(asks: str, wanted: Sequence[Question]) -> int:
    """How well a reply's question fits: the next open one first, then other open ones, none, answered ones."""
    if asks in wanted:
        return wanted.index(asks)
    return len(STEPS) if asks == "none" else len(STEPS) + 1


@cache
def _pieces() -> tuple[tuple[PathReply, tuple[str, ...]], ...]:
    """Each reply with the text between its slots, the longest piece first."""
    made = []
    for row in rows():
        pieces = row.text.replace("{emergency}", "\0").replace("{line}", "\0").split("\0")
        made.append(
            (row, tuple(sorted((piece.strip() for piece in pieces if len(piece.strip()) > 3), key=len, reverse=True)))
        )
    return tuple(made)
