from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import msgspec

from compeer.corpora import chinese, esconv
from compeer.corpora.records import MORE
from compeer.corpora.stats import Spread, collect
from compeer.dialogue import Dialogue, Utterance


def dialogue(number: int = 0, **changes: Any) -> Dialogue:
    said = (
        Utterance(speaker="seeker", text="I am very low today.", emotion="sadness"),
        Utterance(speaker="supporter", text="Oh.", strategy="question"),
        Utterance(speaker="supporter", text="What is it?", strategy="question", images=("a.png", "b.png")),
    )
    fields: dict[str, Any] = {"id": str(number), "source": "s", "licence": "MIT", "language": "en", "utterances": said}
    return Dialogue(**(fields | changes))


def test_counts_by_hand() -> None:
    chinese = dialogue(
        language="zh",
        utterances=(Utterance(speaker="seeker", text="我很难过。"), Utterance(speaker="supporter", text="嗯")),
        crisis=True,
        helpful=False,
        emotion="fear",
        extra={"unmapped_strategies": {"Juggling": 2}},
    )
    found = collect([dialogue(), chinese])
    assert (found.dialogues, found.utterances, found.rounds.total) == (2, 5, 2)  # two utterances, one round
    assert found.languages == {"en": 1, "zh": 1} and found.licences == {"MIT": 2}
    assert found.strategies == {"question": 2} and found.unmapped_strategies == {"Juggling": 2}
    assert found.emotions == {"fear": 1} and found.utterance_emotions == {"sadness": 1}
    assert (found.crises, found.unhelpful, found.images) == (1, 1, 2)
    assert found.lengths["en"]["seeker"].mean == 5 and found.lengths["zh"]["seeker"].most == 4
    assert (found.lengths["en"]["supporter"].least, found.lengths["en"]["supporter"].most) == (1, 3)


def test_spread() -> None:
    spread = Spread(width=10)
    for value in (3, 12, 12, 9_999_999):
        spread.add(value)
    assert (spread.count, spread.least, spread.most) == (4, 3, 9_999_999)
    assert spread.bins == {0: 1, 10: 2, 1990: 1}  # the last bin is open


def test_nothing() -> None:
    assert collect([]).to_dict()["rounds"]["mean"] == 0


def test_names_without_end_do_not_fill_the_memory() -> None:
    stream = (dialogue(n, problem=f"problem {n}", licence=f"licence {n}") for n in range(5_000))
    tracemalloc.start()
    found = collect(stream)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300_000
    assert len(found.problems) == 201 and found.problems[MORE] == 4_800
    assert sum(found.licences.values()) == 5_000


def test_real_corpora(data: Path) -> None:
    found = collect(d for d in esconv.load(data / "esconv") if isinstance(d, Dialogue))
    assert found.dialogues == 1105 and sum(found.strategies.values()) == 12759 + 2722
    assert 11.6 < found.rounds.mean < 11.9
    plain = found.to_dict()
    assert next(iter(plain["strategies"])) == "question" and msgspec.json.encode(plain)
    counselling = collect(d for d in chinese.load_cpsycoun(data / "cpsycoun") if isinstance(d, Dialogue))
    assert set(counselling.lengths) == {"zh"} and counselling.strategies == {}
