"""The linear probe: it learns what can be learnt, never from the dialogue it judges, and not from what it cannot see."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.reward.evaluation.hand_made import load

from compeer.cer.item import Candidate, Item, Labels, PastTurn
from compeer.errors import UserError
from compeer.models.embedding import Embed, Embedder
from compeer.reasoning import Reasoning
from compeer.reasoning.ontology import Language
from compeer.reward.evaluation.baselines import add_probe, probe
from compeer.reward.evaluation.folder import EvaluationFolder
from compeer.reward.evaluation.measure import measure
from compeer.reward.evaluation.report import measure_folder

WORDS = ("rain", "sun", "snow", "wind")


def spelled(language: Language) -> Embed:
    """A text as the weather words in it: simple enough to know what a linear probe can learn from it."""
    return lambda texts: np.array([[text.count(word) for word in WORDS] for text in texts], dtype=np.float32)


def weather(
    number: int, said: str, thought: str, *, right: bool, dialogue: str | None = None, language: Language = "en"
) -> Item:
    """A step that names a weather; the reply is good when it names the same as the seeker."""
    texts = dict.fromkeys(("history", "emotion", "strategy"), f"It is about {thought}.")
    labels: dict[str, str | int] = {
        "stage": "exploration",
        "sentiment": "negative",
        "emotion": "sadness",
        "intensity": 3,
        "strategy": "question",
    }
    return Item(
        id=f"w{number}",
        dialogue=dialogue or f"d{number}",
        source="weather",
        licence="CC0",
        language=language,
        round=1,
        history=(PastTurn("seeker", f"All this {said}."),),
        reference="Well.",
        candidate=Candidate(response=f"Yes, {thought}.", reasoning=Reasoning.of(texts, labels, language)),
        labels=Labels(history=right, emotion=right, strategy=right, preference="both" if right else "reference"),
        label_source="silver",
    )


def matching(count: int, start: int = 0) -> list[Item]:
    """Whether a step is right hangs on the conversation alone: each weather is as often right as wrong."""
    rng = np.random.default_rng(start)
    items = []
    for number in range(start, start + count):
        said, other = rng.choice(WORDS, 2, replace=False)
        right = number % 2 == 0
        items.append(weather(number, said, said if right else other, right=right))
    return items


def scores(items: list[Item], said: dict) -> dict[str, float]:  # type: ignore[type-arg]
    result = measure(items, said).result
    return {name: result.questions[name].figures["auc"].value or 0.0 for name in ("history", "preference")}


def test_a_match_with_the_conversation_is_learnt_with_the_history_and_not_without() -> None:
    train, test = matching(300), matching(100, start=1000)
    with_history = scores(test, probe(train, test, embedders=spelled))
    alone = scores(test, probe(train, test, history=False, embedders=spelled))
    assert min(with_history.values()) > 0.95
    assert max(alone.values()) < 0.65


def test_what_the_text_alone_gives_away_is_found_without_the_history() -> None:
    leaky = [weather(number, "wind", "rain" if number % 2 else "sun", right=bool(number % 2)) for number in range(80)]
    assert min(scores(leaky[40:], probe(leaky[:40], leaky[40:], history=False, embedders=spelled)).values()) > 0.95


def test_a_dialogue_is_never_judged_by_a_probe_that_has_seen_it() -> None:
    """Each dialogue has its own word and its own label: a probe that has seen it would know, another cannot."""
    marks = [f"mark{number}." for number in range(40)]
    rng = np.random.default_rng(3)

    def marked(language: Language) -> Embed:
        return lambda texts: np.array([[mark in text for mark in marks] for text in texts], dtype=np.float32)

    items = []
    for number in range(40):
        right = bool(rng.random() < 0.5)
        for copy in range(4):
            items.append(
                weather(number * 10 + copy, f"mark{number}", f"mark{number}", right=right, dialogue=f"d{number}")
            )
    seen = scores(
        items,
        probe([msgspec.structs.replace(item, dialogue=f"x{item.dialogue}") for item in items], items, embedders=marked),
    )
    fair = scores(items, probe(items, items, embedders=marked))
    assert min(seen.values()) > 0.95  # under other names nothing protects it
    assert max(fair.values()) < 0.6


def test_a_language_without_training_items_stays_unanswered() -> None:
    train = matching(40)
    chinese = [weather(900, "rain", "rain", right=True, language="zh")]
    assert probe(train, chinese, embedders=spelled) == {}
    with pytest.raises(UserError, match="no reasoning with labels"):
        probe([msgspec.structs.replace(train[0], candidate=None)], chinese, embedders=spelled)


def test_classes_that_training_lacks_are_never_said() -> None:
    train = [weather(number, "rain", "rain", right=True) for number in range(6)]
    said = probe(train, matching(4, start=50), embedders=spelled)
    assert all(step.value is True and step.p == 1.0 for judgement in said.values() for step in judgement.steps)
    assert {judgement.preference for judgement in said.values()} == {"both"}


def test_probes_enter_the_report_with_a_real_embedder(tmp_path: Path) -> None:
    items = [item for item in load()[0] if item.language == "zh"]
    folder = EvaluationFolder(tmp_path)
    folder.add_set("test", items)
    embedder = Embedder()
    add_probe(folder, "train", items, embedders=embedder)
    assert embedder.computed and embedder.remembered  # the second probe reads what the first has read
    section = measure_folder(folder, rounds=50).sections[0]
    names = ["linear probe (train)", "text-only probe (train)", "always True", "majority"]
    assert [result.name for result in section.results] == names
    for result in section.results[:2]:
        assert result.questions["history"].scored == len(items) == 12 and result.role == "probe"
    known = folder.run.judges[0].identity
    assert known["items"] == 12 and known["label_sources"] == ["human"]
