"""SAGE (Zhang et al. 2025): a seeker whose mood rises and falls with what the supporter says, ten turns at most.

    turn 1       the seeker's preset words, mood at its start
    turn 2 …     a change (clipped, added, capped, no floor), then words; the dialogue ends when the mood is at the
                 top or below the threshold, or the words say goodbye
    last turn    the supporter answers once more, and nobody judges that answer

The rules are those of `compeer.policy.seeker`, shared with training against a seeker. Every reply of the seeker takes
two calls: a plan (what did that do for me?), then the words. Both show it the persona, the scene, its hidden goal, its
mood and all that was said; the second also the plan. What was said stands in quotes, so that a supporter cannot give
orders to the seeker. A plan without a change is asked for again; after the last attempt the mood stays, and this is
counted.

Sentient is the mean final mood, Success how many reached the top, Failure how many fell below 10. A failure keeps its
value in the mean; it is not set to zero.

Solver and scorer are module-level and keep everything in the sample's metadata, so that `inspect score` works on a log
and every epoch is a dialogue of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.evals import launch, roles
from compeer.evals.result import Finished, Transcript, TranscriptTurn, cases_digest
from compeer.policy.seeker import SAGE, farewell, moved, outcome
from compeer.reasoning.ontology import Language, detect
from compeer.reasoning.schema import has_words
from compeer.statistics import Figure, mean_figure
from compeer.typed import from_plain

PROFILES = "sage/profile/simulator_profile_withfirsttalk.jsonl"
#: turns of the seeker after which a dialogue is over
TURNS = 10
#: SAGE's five bands, each from its value on
BANDS = ((100, "S"), (70, "A"), (40, "B"), (10, "C"))
#: the two words by which SAGE ends a dialogue, wherever they stand
_GOODBYE = re.compile("再见|拜拜")
_LABEL = re.compile(r"(?:change|变化)\s*[:：]", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d+")
_SIGNED = re.compile(r"[+-]\d+")
_WIDE = str.maketrans("＋－−–０１２３４５６７８９", "+---0123456789")
_SPACED = re.compile(r"([+-])\s+(?=\d)")
_SPEAKERS: dict[Language, dict[str, str]] = {
    "en": {"seeker": "You:", "supporter": "The other:"},
    "zh": {"seeker": "你：", "supporter": "对方："},
}

End = Literal["content", "lost", "goodbye", "turns"]


class MoodCourse:
    """The mood over one dialogue: `feel`, then `speak` for each turn of the seeker, `answered` for the supporter's."""

    def __init__(self, language: Language = "zh") -> None:
        self.language = language
        self.curve = [int(SAGE.start)]
        self.turns = 1  # the opening words
        self.unread = 0  # changes that could not be read
        self.end: End | None = None

    @property
    def mood(self) -> int:
        return self.curve[-1]

    def feel(self, change: int | None) -> int:
        """The mood after a change; None is a change that could not be read."""
        self.unread += change is None
        self.curve.append(int(moved(self.mood, change or 0, SAGE)))
        return self.mood

    def speak(self, words: str) -> End | None:
        """What the seeker says after it felt: whether that was the end."""
        self.turns += 1
        self.end = outcome(self.mood, SAGE) or ("goodbye" if goodbye(words, self.language) else None)
        return self.end

    def answered(self) -> End | None:
        """The supporter has spoken: whether that was the last turn."""
        if self.turns >= TURNS:
            self.end = "turns"
        return self.end


def goodbye(words: str, language: Language = "zh") -> bool:
    """Whether these words end a dialogue: in Chinese SAGE's two, in English a goodbye at either end.

    >>> goodbye("那先这样，拜拜"), goodbye("好的 bye"), goodbye("Thanks, bye!", "en")
    (True, False, True)
    """
    return _GOODBYE.search(words) is not None if language == "zh" else farewell(words)


def read_change(text: str) -> int | None:
    """The change a plan names: the first whole number after the last "Change:", signed or not.

    Without such a label only a number with a sign counts, because plans number their sentences.

    >>> read_change("He listened.\\nChange: -5"), read_change("变化：＋3（好一点）"), read_change("1. nothing new")
    (-5, 3, None)
    """
    plain = _SPACED.sub(r"\1", text.translate(_WIDE))
    labels = list(_LABEL.finditer(plain))
    found = _NUMBER.search(plain, labels[-1].end()) if labels else _SIGNED.search(plain)
    return int(found.group()) if found else None


def band(mood: float) -> str:
    """SAGE's letter for a mood.

    >>> [band(value) for value in (100, 99, 70, 40, 10, 9)]
    ['S', 'A', 'A', 'B', 'C', 'F']
    """
    return next((letter for least, letter in BANDS if mood >= least), "F")


def figures(curves: Sequence[Sequence[int]]) -> tuple[Figure, ...]:
    """The table's columns first, then the bands and the mean length."""
    final = [curve[-1] for curve in curves]
    ends = Counter(outcome(mood, SAGE) for mood in final)
    bands = Counter(band(mood) for mood in final)
    return (
        mean_figure("Sentient", final),
        Figure("Success", ends["content"], n=len(final)),
        Figure("Failure", ends["lost"], n=len(final)),
        *(Figure(f"band {letter}", bands[letter], n=len(final)) for letter in "SABCF"),
        mean_figure("turns", [len(curve) for curve in curves]),
    )


class SeekerProfile(msgspec.Struct, frozen=True):
    """One person, in the fields of the released file."""

    id: str
    player: str
    scene: str
    task: str  # what the person hopes to get, never said aloud
    first_talk: str
    main_cha: str = ""
    cha_group: Any = ()

    @property
    def language(self) -> Language:
        return detect(self.first_talk)


def load_profiles(path: Path | None = None) -> list[SeekerProfile]:
    """The profiles of a file; by default the released one below $COMPEER_DATA."""
    path = path or roles.published(PROFILES, "--profiles FILE")
    profiles = list(read_rows(path, SeekerProfile))
    twice = [name for name, count in Counter(one.id for one in profiles).items() if count > 1]
    if twice or not profiles:
        raise UserError(f"{path} has {'no profiles' if not profiles else f'the id {min(twice)} twice'}.")
    return profiles


class SimulatedSeeker:
    """The person of a profile, played by a model."""

    def __init__(
        self, profile: SeekerProfile, model: Model, calls: roles.Calls, prompts: roles.Prompts, longest: int | None
    ) -> None:
        self.profile, self.model, self.calls, self.prompts = profile, model, calls, prompts
        self.longest = longest  # characters of persona and scene, for a seeker with a small context

    async def plan(self, said: list[TranscriptTurn], mood: int) -> tuple[str, int | None]:
        """What the last reply did for the seeker, in words, and the change it names."""
        text = ""
        for _ in range(self.calls.settings.attempts):
            text = await self._ask("plan", said, mood)
            change = read_change(text)
            if change is not None:
                return text, change
            self.calls.counts["plans_without_change"] += 1
        return text, None

    async def reply(self, said: list[TranscriptTurn], mood: int, plan: str) -> str:
        text = await self._ask("reply", said, mood, plan)
        words = text.rpartition("Response:")[2].strip()  # some simulators' prompts ask for notes before it
        return words if has_words(words) else roles.SILENCE

    async def _ask(self, prompt: str, said: list[TranscriptTurn], mood: int, plan: str = "") -> str:
        profile, language = self.profile, self.profile.language
        speakers = _SPEAKERS[language]
        text = self.prompts.text(
            prompt,
            language,
            persona=profile.player[: self.longest],
            scene=profile.scene[: self.longest],
            goal=profile.task,
            emotion=str(mood),
            band=band(mood),
            plan=plan.strip(),
            history=roles.quoted_dialogue(said, speakers),
            dialogue="\n".join(f"{speakers[one.speaker]}{one.text}" for one in said),
        )
        return await roles.ask_seeker(self.model, self.calls, [ChatMessageUser(content=text)])


async def converse(supporter: roles.Supporter, seeker: SimulatedSeeker) -> Finished:
    profile, calls = seeker.profile, seeker.calls
    course = MoodCourse(profile.language)
    said = [TranscriptTurn("seeker", profile.first_talk, emotion=course.mood)]
    while True:
        said.append(await supporter.answer(said[-1].text))
        if course.answered():
            break
        plan, change = await seeker.plan(said, course.mood)
        mood = course.feel(change)
        words = await seeker.reply(said, mood, plan)
        said.append(TranscriptTurn("seeker", words, emotion=mood, note=plan))
        if course.speak(words):
            break
    calls.counts["unread_changes"] += course.unread
    about = {"persona": profile.player, "scene": profile.scene, "goal": profile.task, "character": profile.main_cha}
    transcript = Transcript(
        id=calls.case,
        language=profile.language,
        said=tuple(said),
        scores={"emotion": float(course.mood)},
        curve=tuple(course.curve),
        end=course.end,
        about={name: text for name, text in about.items() if text},
    )
    return Finished(transcript, counts=dict(calls.counts))


@solver(name="sage_dialogue")  # type: ignore[untyped-decorator]
def sage_dialogue(settings: dict[str, Any], prompts: str | None = None, longest: int | None = None) -> Solver:
    """A dialogue between the supporter and the seeker of a profile; `prompts` is a folder."""
    how, texts = from_plain(settings, roles.RoleSettings), roles.load_prompts("sage", prompts)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        profile = from_plain(state.metadata["profile"], SeekerProfile)
        calls, language = roles.calls_of(state, how), profile.language
        supporter = roles.Supporter(get_model(), calls, language, texts.text("supporter", language))
        seeker = SimulatedSeeker(profile, get_model(role="seeker", required=True), calls, texts, longest)
        done = await converse(supporter, seeker)
        launch.report_finished(done)
        state.metadata["finished"] = msgspec.to_builtins(done)
        return roles.save_dialogue(state, supporter, list(done.transcript.said))

    return solve


#: how many seekers reached the top, and how many fell below the threshold
_SUCCESS = roles.counting("success", lambda mood: outcome(mood, SAGE) == "content")
_FAILURE = roles.counting("failure", lambda mood: outcome(mood, SAGE) == "lost")


@scorer(name=roles.registered("sage"), metrics=[mean(), stderr(), _SUCCESS, _FAILURE])  # type: ignore[untyped-decorator]
def final_mood() -> Scorer:
    """The mood at the end of the dialogue."""

    async def score(state: TaskState, target: Target) -> Score:
        done = state.metadata["finished"]["transcript"]
        return Score(value=done["scores"]["emotion"], answer=done["end"], metadata={"curve": done["curve"]})

    return score


def benchmark(
    settings: roles.RoleSettings = roles.RoleSettings(),
    *,
    profiles: Path | None = None,
    prompts: str | Path | None = None,
    limit: int | None = None,
    longest: int | None = None,
) -> launch.Benchmark:
    """All profiles, or the first `limit`. Role: seeker."""
    everyone = load_profiles(profiles)
    people = everyone[:limit]
    texts = roles.load_prompts("sage", prompts)
    return launch.Benchmark(
        name="sage",
        settings=settings,
        cases=everyone,
        samples=[
            Sample(id=one.id, input=one.first_talk, metadata={"profile": msgspec.to_builtins(one)}) for one in people
        ],
        solver=sage_dialogue(msgspec.structs.asdict(settings), str(prompts) if prompts else None, longest),
        scorer=final_mood(),
        calls_per_sample=1 + 3 * (TURNS - 1),  # one answer to the opening, then plan, reply and answer per turn
        comparable={
            "prompts": texts.digest(without="supporter"),
            "language": "+".join(sorted({one.language for one in people})),
            "cases": f"{len(people)} profiles {cases_digest(people)}",
            **({"shortened": f"persona and scene to {longest} characters"} if longest else {}),
        },
        supporter_prompt=texts.digest(),
        figures=lambda done: figures([one.transcript.curve for one in done]),
    )
