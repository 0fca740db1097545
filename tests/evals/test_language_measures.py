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

from compeer.cer.item import PastTurn
from compeer.corpora import bundled
from compeer.errors import UserError
from compeer.evals.language.measure import (
    count_strategies,
    distance_figure,
    measure,
    people_of,
    strategies_of,
    total_variation,
)
from compeer.evals.language.metrics import (
    ORDER,
    across_figure,
    bleu_figure,
    common_length,
    distinct_figure,
    rouge_l,
    sacrebleu,
    self_bleu,
)
from compeer.evals.language.outputs import Output, Outputs, of_dialogue, read_outputs
from compeer.evals.result import load_result, load_transcripts
from compeer.policy.diversity import distinct, ngrams
from compeer.reasoning.ontology import words
from compeer.statistics import Resamples


def test_bleu_is_sacrebleus_for_both_languages() -> None:
    replies = {
        "en": ["The cat sat on the mat, I think.", "How are you?", "No."],
        "zh": ["我很难过，睡不着。", "你好吗？", "嗯。"],
    }
    wanted = {
        "en": ["The cat sat on a mat.", "How are you today?", None],
        "zh": ["我难过得睡不着。", "你还好吗？", None],
    }
    for language in ("en", "zh"):
        resamples = Resamples(["a", "b", "c"])
        for order in (2, 4):
            figure, signature = bleu_figure(f"bleu-{order}", replies[language], wanted[language], language, resamples)  # type: ignore[arg-type]
            metric = sacrebleu(language, order)  # type: ignore[arg-type]
            whole = metric.corpus_score(replies[language][:2], [wanted[language][:2]])
            assert figure.value == pytest.approx(whole.score) and figure.n == 2
            assert figure.low is not None and figure.low < whole.score
            assert f"tok:{'13a' if language == 'en' else 'zh'}" in signature and "eff:no" in signature


def test_the_interval_of_bleu_resamples_whole_dialogues() -> None:
    replies = ["one two three four five", "six seven eight nine ten"] * 6
    references: list[str | None] = ["one two three four five", "six seven eleven nine ten"] * 6
    often, _ = bleu_figure("bleu-2", replies, references, "en", Resamples([str(n % 2) for n in range(12)]))
    once, _ = bleu_figure("bleu-2", replies[:2], references[:2], "en", Resamples(["0", "1"]))
    assert (often.value, often.low, often.high) == pytest.approx((once.value, once.low, once.high))


def test_self_bleu_is_that_of_the_plain_quadratic_way() -> None:
    rng = random.Random(3)
    texts = [" ".join(rng.choices("a b c d e f", k=rng.randint(1, 9))) for _ in range(40)]
    plain = []
    for at, text in enumerate(texts):
        others = texts[:at] + texts[at + 1 :]
        most = [Counter[tuple[str, ...]]() for _ in range(ORDER)]
        for other in others:
            most = [one | Counter(ngrams(other, n)) for n, one in enumerate(most, start=1)]
        own = [Counter(ngrams(text, n)) for n in range(1, ORDER + 1)]
        length = len(words(text))
        nearest = min((len(words(other)) for other in others), key=lambda other: (abs(other - length), other))
        matched = [(mine & theirs).total() for mine, theirs in zip(own, most, strict=True)]
        total = [one.total() for one in own]
        score = sacrebleu().compute_bleu(matched, total, length, nearest, "exp", effective_order=True)
        plain.append(score.score / 100)
    assert self_bleu(texts) == pytest.approx(plain)


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
        before = tuple(PastTurn(t.speaker, stock) if t.speaker == "supporter" else t for t in one.history)
        stuck.append(Output(one.case, one.dialogue, "en", stock, before, one.reply, ("question",), one.strategies))
    embed = Embedder()
    theirs = strategies_of(bundled.load("en"))
    found = {}
    for name, outputs in (("people", people), ("stuck", stuck)):
        source = Outputs(tuple(outputs), (), "outputs")
        found[name] = measure(source, name, embed, people=theirs, people_source="bundled", embedder=embed.name).result

    def value(name: str, figure: str) -> float:
        return found[name].figure(f"en/{figure}").value  # type: ignore[no-any-return, union-attr]

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
    assert count_strategies(stated) == {"question": 3, "others": 1}
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
    assert "| distinct-2 " in done.stdout
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
