"""One SAGE dialogue: the supporter answers, the seeker plans (what did that do for me?) and replies, ten turns at most.

Every reply of the seeker takes two calls. Both show it the persona, the scene, its hidden goal, its mood and all that
was said; the second also what the first one wrote. What was said stands in quotes, so that a supporter cannot give
orders to the seeker. A plan without a change is asked for again; after the last try the mood stays and it is counted.
"""

from __future__ import annotations

from inspect_ai.model import ChatMessageUser, Model

from compeer.evals.prompts import Prompts
from compeer.evals.result import Finished, Said, Transcript
from compeer.evals.roles import SILENCE, Calls, Supporter, ask_seeker
from compeer.evals.sage.machine import SAGE, Course, Profile, Protocol, band, read_change
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import has_words
from compeer.reward.conversation import quote

_SPEAKERS: dict[Language, dict[str, str]] = {
    "en": {"seeker": "You:", "supporter": "The other:"},
    "zh": {"seeker": "你：", "supporter": "对方："},
}


class Seeker:
    """The person of a profile, played by a model."""

    def __init__(self, profile: Profile, model: Model, calls: Calls, prompts: Prompts, longest: int | None) -> None:
        self.profile, self.model, self.calls, self.prompts = profile, model, calls, prompts
        self.longest = longest

    async def plan(self, said: list[Said], mood: int) -> tuple[str, int | None]:
        """What the last reply did for the seeker, in words, and the change it names."""
        text = ""
        for _ in range(self.calls.settings.attempts):
            text = await self._ask("plan", said, mood)
            change = read_change(text)
            if change is not None:
                return text, change
            self.calls.counts["plans_without_change"] += 1
        return text, None

    async def reply(self, said: list[Said], mood: int, plan: str) -> str:
        """What the seeker says next."""
        text = await self._ask("reply", said, mood, plan)
        words = text.rpartition("Response:")[2].strip()  # some simulators' prompts ask for notes before it
        return words if has_words(words) else SILENCE

    async def _ask(self, prompt: str, said: list[Said], mood: int, plan: str = "") -> str:
        profile, language = self.profile, self.profile.language
        speakers = _SPEAKERS[language]
        text = self.prompts.text(
            prompt,
            language,
            persona=profile.persona(self.longest),
            scene=profile.story(self.longest),
            goal=profile.task,
            emotion=str(mood),
            band=band(mood),
            plan=plan.strip(),
            history="\n".join(f"{speakers[one.speaker]}\n{quote(one.text)}" for one in said),
            dialogue="\n".join(f"{speakers[one.speaker]}{one.text}" for one in said),
        )
        return await ask_seeker(self.model, self.calls, [ChatMessageUser(content=text)])


async def converse(supporter: Supporter, seeker: Seeker, *, protocol: Protocol = SAGE) -> Finished:
    """A whole dialogue."""
    profile, calls = seeker.profile, seeker.calls
    course = Course(protocol, profile.language)
    said = [Said("seeker", profile.first_talk, emotion=course.mood)]
    while True:
        said.append(await supporter.answer(said[-1].text))
        if course.answered():
            break
        plan, change = await seeker.plan(said, course.mood)
        mood = course.feel(change)
        words = await seeker.reply(said, mood, plan)
        said.append(Said("seeker", words, emotion=mood, note=plan))
        if course.speak(words):
            break
    calls.counts["unread_changes"] += course.unread
    about = {"persona": profile.player, "scene": profile.scene, "goal": profile.task, "character": profile.main_cha}
    transcript = Transcript(
        id=profile.id,
        language=profile.language,
        said=tuple(said),
        scores={"emotion": float(course.mood)},
        curve=tuple(course.curve),
        end=course.end,
        about={name: text for name, text in about.items() if text},
    )
    return Finished(transcript, counts=dict(calls.counts))
