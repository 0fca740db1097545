"""Figures of language against values by hand, against slow and plain versions of themselves, and on real replies."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.command import compeer
from tests.evals.made_runs import sage_run

from compeer.cer.item import Said
from compeer.corpora import bundled
from compeer.errors import UserError
from compeer.evals.language import metrics as bleu
from compeer.evals.language.measure import measure
from compeer.evals.language.metrics import across_figure, common_length, distinct_figure, rouge_l
from compeer.evals.language.outputs import Output, Outputs, of_dialogue, read_outputs
from compeer.evals.language.strategies import count, distance_figure, people_of, strategies_of, total_variation
from compeer.evals.result import load_result, load_transcripts
from compeer.policy.diversity import distinct, ngrams
from compeer.reasoning.ontology import words
from compeer.statistics import Resamples

PARTY = "It is a guide to action which ensures that the military always obeys the commands of the party"
REFERENCES = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]


def test_bleu_of_papineni_s_example() -> None:
    assert bleu.counts(PARTY, REFERENCES)[:8].tolist() == [17, 10, 7, 4, 18, 17, 16, 15]
    by_hand = (17 / 18 * 10 / 17 * 7 / 16 * 4 / 15) ** 0.25  # as long as its nearest reference: no penalty
    assert float(bleu.bleu(bleu.counts(PARTY, REFERENCES))) == pytest.approx(by_hand)
    assert by_hand == pytest.approx(0.5046, abs=1e-4)


def test_bleu_clips_and_punishes_brevity() -> None:
    assert bleu.counts("the the the the the the the", ["the cat is on the mat"])[0] == 2
    assert float(bleu.bleu(bleu.counts("睡不", ["睡不着了"]), order=2)) == pytest.approx(np.exp(1 - 4 / 2))
    rows = np.array([bleu.counts("a b c d", ["a b c d"]), bleu.counts("x y", ["p q"])])
    # a corpus sums its counts: unigrams 4/6, pairs 3/4
    assert float(bleu.bleu(rows.sum(axis=0), order=2)) == pytest.approx((4 / 6 * 3 / 4) ** 0.5)


def test_self_bleu_is_that_of_the_plain_quadratic_way() -> None:
    rng = random.Random(3)
    texts = [" ".join(rng.choices("a b c d e f", k=rng.randint(1, 9))) for _ in range(40)]
    plain = [
        float(bleu.bleu(bleu.counts(text, texts[:at] + texts[at + 1 :]), smooth=True)) for at, text in enumerate(texts)
    ]
    assert bleu.self_bleu(texts) == pytest.approx(plain)


def test_common_subsequences_are_those_of_the_table_of_the_textbook() -> None:
    rng = random.Random(5)
    for _ in range(60):
        one, two = rng.choices("abcd", k=rng.randint(0, 12)), rng.choices("abcd", k=rng.randint(0, 12))
        table = [[0] * (len(two) + 1) for _ in range(len(one) + 1)]
        for i, left in enumerate(one):
            for j, right in enumerate(two):
                table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
        assert common_length(one, two) == table[-1][-1]
    assert rouge_l("我很难过", "我难过") == pytest.approx(2 * 3 / 7)


def test_intervals_of_whole_set_figures_are_the_jackknife_s() -> None:
    """Leaving out a dialogue is computed without doing it; here it is done."""
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(list("abcdefgh"), size=6)) for _ in range(30)]
    homes = [f"d{at % 10}" for at in range(30)]
    vectors = rng.normal(size=(30, 5)) + 0.5
    names = sorted(set(homes))

    def error(values: list[float]) -> float:
        return 1.96 * float(np.sqrt((len(values) - 1) / len(values) * np.square(values - np.mean(values)).sum()))

    without = [distinct([t for t, h in zip(texts, homes, strict=True) if h != name], 2) for name in names]
    figure = distinct_figure("x", texts, homes, 2)
    assert figure.value == distinct(texts, 2)
    assert figure.high == pytest.approx(min(1, figure.value + error(without)))

    def across(kept: list[int]) -> float:
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        pairs = [float(units[i] @ units[j]) for i in kept for j in kept if i < j and homes[i] != homes[j]]
        return float(np.mean(pairs))

    alike = across_figure("y", vectors, homes)
    assert alike.value == pytest.approx(across(list(range(30))))
    left = [across([at for at in range(30) if homes[at] != name]) for name in names]
    assert alike.low == pytest.approx(alike.value - error(left))


def test_a_collapsed_model_is_told_from_people_by_every_figure(tmp_path: Path) -> None:
    """The same moments answered by people and by one stock phrase; with the real embedder."""
    from compeer.models.embedding import Embedder

    people = [one for dialogue in list(bundled.load("en"))[:8] for one in of_dialogue(dialogue)]
    stock = "I am so sorry to hear that. I am here for you. What do you feel right now?"
    stuck = []
    for one in people:
        before = tuple(Said(t.speaker, stock) if t.speaker == "supporter" else t for t in one.history)
        stuck.append(Output(one.case, one.dialogue, "en", stock, before, one.reply, ("question",), one.strategies))
    embed = Embedder()
    theirs = strategies_of(bundled.load("en"))
    found = {}
    for name, outputs in (("people", people), ("stuck", stuck)):
        source = Outputs(tuple(outputs), (), "outputs")
        found[name] = measure(source, name, embed, people=theirs, people_source="bundled", embedder=embed.name).result
    value = lambda name, figure: found[name].figure(f"en/{figure}").value  # type: ignore[union-attr]
    for figure in ("distinct-1", "distinct-2", "distinct-3"):
        assert value("stuck", figure) < 0.1 < value("people", figure)
    assert value("stuck", "repetition") == pytest.approx(1 - 8 / len(people)), "all but the first of each dialogue"
    for figure in ("self-bleu", "identical", "similarity-within", "similarity-across"):
        assert value("stuck", figure) > 0.85
        assert value("people", figure) < 0.6
    assert value("stuck", "strategy-distance") > 0.6 > value("people", "strategy-distance")
    assert 0 < value("stuck", "rouge-l") < 0.4
    assert 0 < value("stuck", "similarity-reference") < 0.7
    assert found["people"].figure("en/rouge-l") is None, "there is no reference"
    for result in found.values():
        for figure in result.figures:
            if figure.low is not None and figure.high is not None:
                assert figure.low - 1e-9 <= figure.value <= figure.high + 1e-9, figure


def test_strategies_against_people() -> None:
    assert total_variation({"question": 3, "others": 1}, {"question": 1, "others": 1}) == pytest.approx(0.25)
    stated = [("question",), ("question",), ("others",), ("question",), ()]
    figure = distance_figure("d", stated, {"question": 1, "others": 1}, Resamples(["a", "a", "b", "b", "c"]))
    assert (figure.value, figure.n) == (pytest.approx(0.25), 4)
    assert count(stated) == {"question": 3, "others": 1}
    with pytest.raises(UserError, match="no such file"):
        people_of("nowhere.jsonl")


THOUGHT = (
    "<think>\n<history>\nLost a job.\nStage: exploration\n</history>\n<emotion>\nAfraid.\nSentiment: negative\n"
    "Emotion: fear\nIntensity: 4\n</emotion>\n<strategy>\nAsk.\nStrategy: question\n</strategy>\n</think>\n"
)


def test_every_kind_of_file_is_read(tmp_path: Path) -> None:
    def put(name: str, *rows: Any) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return path

    history = [{"speaker": "seeker", "text": "I lost my job."}]
    lines = put(
        "o.jsonl", {"reply": THOUGHT + "What now?", "history": history, "reference": "Oh."}, {"reply": "我在听。"}
    )
    found = read_outputs(lines)
    assert [(o.reply, o.language, o.strategies) for o in found.outputs] == [
        ("What now?", "en", ("question",)),
        ("我在听。", "zh", ()),
    ]
    candidate = {"response": "What now?", "generator": "m"}
    item = {"id": "d#1", "dialogue": "d", "source": "s", "licence": "l", "language": "en", "round": 1}
    items = put("i.jsonl", {**item, "history": history, "reference": "Oh.", "candidate": candidate})
    assert (read_outputs(items).model, read_outputs(items).outputs[0].reference) == ("m", "Oh.")
    with pytest.raises(UserError, match="has no candidate"):
        read_outputs(put("j.jsonl", {**item, "history": history, "reference": "Oh."}))
    with pytest.raises(UserError, match="neither a transcript"):
        read_outputs(put("k.jsonl", {"question": 1}))
    sage_run(tmp_path / "run", "model-a", count=3)
    run = read_outputs(tmp_path / "run")
    assert (run.kind, run.model, run.comparable["simulator"]) == ("run", "model-a", "simulator-a")
    assert any(output.strategies for output in run.outputs)
    assert all(turn.text for output in run.outputs for turn in output.history)


def test_the_command_measures_a_run_and_keeps_a_result(tmp_path: Path) -> None:
    sage_run(tmp_path / "run", "model-a")
    words_ = ("eval", "diversity", str(tmp_path / "run"), "--embedder", "none", "--people", "bundled")
    done = compeer(*words_, "--out", str(tmp_path / "language"))
    assert done.returncode == 0, done.stderr
    assert "| distinct-2 |" in done.stdout
    assert "total variation" in done.stdout
    result = load_result(tmp_path / "language")
    assert {figure.name.partition("/")[0] for figure in result.figures} == {"en", "zh"}
    samples = list(load_transcripts(tmp_path / "language"))
    assert len(samples) == 91
    # each dialogue's own mean, weighed by its replies, is the mean of the whole
    replies = Counter({s.id: sum(t.speaker == "supporter" for t in s.said) for s in samples if s.language == "zh"})
    mean = sum((s.scores["length"] or 0) * replies[s.id] for s in samples) / replies.total()
    figure = result.figure("zh/length")
    assert figure is not None
    assert figure.value == pytest.approx(mean)
    texts = [t.text for s in samples if s.language == "zh" for t in s.said if t.speaker == "supporter"]
    assert figure.value == pytest.approx(sum(len(words(text)) for text in texts) / len(texts))
    assert sum(len(ngrams(text, 1)) for text in texts) == sum(len(words(text)) for text in texts)
