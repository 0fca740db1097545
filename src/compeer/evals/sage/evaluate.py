"""SAGE: profiles, a seeker whose mood moves, ten turns at most; as an Inspect task and as a run.

Every reply of the seeker takes two calls: a plan (what did that do for me?), then the words. Both show it the persona,
the scene, its hidden goal, its mood and all that was said; the second also the plan. What was said stands in quotes, so
that a supporter cannot give orders to the seeker. A plan without a change is asked for again; after the last attempt
the mood stays and it is counted.

Solver and scorer are module-level and keep everything in the sample's metadata, so that `inspect score` works on a log
and every epoch is a dialogue of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.evals import launch
from compeer.evals.prompts import Prompts, load_prompts, published, quoted_dialogue
from compeer.evals.result import Finished, Result, Transcript, TranscriptTurn, cases_digest
from compeer.evals.roles import SILENCE, Calls, RoleSettings, Supporter, ask_seeker, begun, counting, played, registered
from compeer.evals.sage.mood import TURNS, MoodCourse, band, figures, read_change
from compeer.policy.seeker import SAGE, outcome
from compeer.reasoning.ontology import Language, detect
from compeer.reasoning.schema import has_words
from compeer.typed import from_plain

DEFAULT = "sage/profile/simulator_profile_withfirsttalk.jsonl"


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
    path = path or published(DEFAULT, "--profiles FILE")
    profiles = list(read_rows(path, SeekerProfile))
    twice = {one.id for one in profiles if sum(other.id == one.id for other in profiles) > 1}
    if twice or not profiles:
        raise UserError(f"{path} has {'no profiles' if not profiles else f'the id {min(twice)} twice'}.")
    return profiles


_SPEAKERS: dict[Language, dict[str, str]] = {
    "en": {"seeker": "You:", "supporter": "The other:"},
    "zh": {"seeker": "你：", "supporter": "对方："},
}


class SimulatedSeeker:
    """The person of a profile, played by a model."""

    def __init__(
        self, profile: SeekerProfile, model: Model, calls: Calls, prompts: Prompts, longest: int | None
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
        return words if has_words(words) else SILENCE

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
            history=quoted_dialogue(said, speakers),
            dialogue="\n".join(f"{speakers[one.speaker]}{one.text}" for one in said),
        )
        return await ask_seeker(self.model, self.calls, [ChatMessageUser(content=text)])


async def converse(supporter: Supporter, seeker: SimulatedSeeker) -> Finished:
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


def sample_of(profile: SeekerProfile) -> Sample:
    return Sample(id=profile.id, input=profile.first_talk, metadata={"profile": msgspec.to_builtins(profile)})


@solver(name="sage_dialogue")  # type: ignore[untyped-decorator]
def sage_dialogue(settings: dict[str, Any], prompts: str | None = None, longest: int | None = None) -> Solver:
    """A dialogue between the supporter and the seeker of a profile; `prompts` is a folder."""
    how, texts = from_plain(settings, RoleSettings), load_prompts("sage", prompts)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        profile = from_plain(state.metadata["profile"], SeekerProfile)
        calls = begun(state, how)
        supporter = Supporter(get_model(), calls, profile.language, texts.text("supporter", profile.language))
        seeker = SimulatedSeeker(profile, get_model(role="seeker", required=True), calls, texts, longest)
        done = await converse(supporter, seeker)
        launch.report_finished(done)
        state.metadata["finished"] = msgspec.to_builtins(done)
        return played(state, supporter, list(done.transcript.said))

    return solve


#: how many seekers reached the top, and how many fell below the threshold
_SUCCESS = counting("success", lambda mood: outcome(mood, SAGE) == "content")
_FAILURE = counting("failure", lambda mood: outcome(mood, SAGE) == "lost")


@scorer(name=registered("sage"), metrics=[mean(), stderr(), _SUCCESS, _FAILURE])  # type: ignore[untyped-decorator]
def final_mood() -> Scorer:
    """The mood at the end of the dialogue."""

    async def score(state: TaskState, target: Target) -> Score:
        done = state.metadata["finished"]["transcript"]
        return Score(value=done["scores"]["emotion"], answer=done["end"], metadata={"curve": done["curve"]})

    return score


def evaluate(
    out: Path,
    model: Model,
    seeker: Model,
    settings: RoleSettings = RoleSettings(),
    *,
    profiles: Path | None = None,
    prompts: Path | None = None,
    limit: int | None = None,
    longest: int | None = None,
    **run: Any,
) -> Result:
    """Play all profiles, or the first `limit`; `run` is as for `launch.evaluate`."""
    everyone = load_profiles(profiles)
    people = everyone[:limit]
    texts = load_prompts("sage", prompts)
    benchmark = launch.Benchmark(
        name="sage",
        cases=everyone,
        samples=[sample_of(one) for one in people],
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
    return launch.evaluate(benchmark, out, model, {"seeker": [seeker]}, settings, **run)
