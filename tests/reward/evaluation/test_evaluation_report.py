"""Reports: what is kept and asked, sections by origin of the labels, differences, findings, tables and figures."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.endpoints.process import ScriptedEndpoint
from tests.reward.evaluation.hand_made import load
from typer.testing import CliRunner

from compeer.cer.item import Item
from compeer.cli import app
from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.reward.evaluation.baselines import always_true, majority
from compeer.reward.evaluation.folder import EvaluationFolder, JudgeEntry, ask_judge
from compeer.reward.evaluation.measure import MeasuredJudge, difference, measure
from compeer.reward.evaluation.report import COLUMNS, markdown, measure_folder, paper_figures, paper_table, write_report
from compeer.reward.evaluation.signatures import Signature, leaks, signatures
from compeer.reward.judge import Judgement, PairVerdict, StepVerdict
from compeer.statistics import Resamples

ITEMS, JUDGEMENTS = load()


def kept(path: Path, *sets: str, judges: tuple[str, ...] = ("ours",)) -> EvaluationFolder:
    """A folder with the hand-made verdicts."""
    folder = EvaluationFolder(path)
    for name in sets or ("test",):
        folder.add_set(name, ITEMS)
        for judge in judges:
            folder.add_judge(JudgeEntry(name=judge, identity={"which": judge}))
            folder.append(name, judge, JUDGEMENTS.values())
    return folder


def perfect(item: Item) -> Judgement:
    labels = item.labels
    steps = tuple(
        StepVerdict(value, None if value is None else 0.99 * value + 0.005)
        for value in (labels.history, labels.emotion, labels.strategy)
    )
    pairs = (PairVerdict(True, labels.preference, {labels.preference: 1.0}),) if labels.preference else ()
    return Judgement(id=item.id, complete=True, steps=steps, pairs=pairs)  # type: ignore[arg-type]


def codes(found: list[Signature]) -> set[str]:
    return {entry.code for entry in found}


def test_labels_of_different_origin_are_never_in_one_figure(tmp_path: Path) -> None:
    mixed = [
        msgspec.structs.replace(item, label_source="silver" if number % 2 else "human")
        for number, item in enumerate(ITEMS)
    ]
    folder = EvaluationFolder(tmp_path)
    folder.add_set(
        "mixed",
        [*mixed, msgspec.structs.replace(ITEMS[0], id="bare", labels=type(ITEMS[0].labels)(), label_source=None)],
    )
    folder.add_judge(JudgeEntry(name="ours"))
    folder.append("mixed", "ours", JUDGEMENTS.values())
    made = measure_folder(folder, rounds=50)
    assert [(section.label_source, section.items) for section in made.sections] == [("human", 20), ("silver", 20)]
    assert made.unlabelled == {"mixed": 1}
    for section in made.sections:
        alone = [item for item in mixed if item.label_source == section.label_source]
        expected = measure(alone, JUDGEMENTS).result.questions["strategy"].figures["weighted_f1"].value
        assert section.results[0].questions["strategy"].figures["weighted_f1"].value == expected
    told = markdown(made)
    assert "## mixed: labels by people" in told and "## mixed: silver labels (made by rule, not by people)" in told


def test_labels_without_an_origin_and_sets_without_labels_are_refused(tmp_path: Path) -> None:
    nameless = msgspec.structs.replace(ITEMS[0], label_source=None)
    with pytest.raises(UserError, match=r"d01#1 has labels, but does not say who gave them"):
        EvaluationFolder(tmp_path).add_labelled_set("test", [nameless])
    bare = msgspec.structs.replace(nameless, labels=type(nameless.labels)())
    with pytest.raises(UserError, match="nothing to measure"):
        EvaluationFolder(tmp_path).add_labelled_set("test", [bare])
    with pytest.raises(UserError, match="have the id of another one"):
        EvaluationFolder(tmp_path).add_labelled_set("test", [ITEMS[0], ITEMS[0]])


def test_a_verdict_that_did_not_come_is_wrong_and_counted(tmp_path: Path) -> None:
    folder = EvaluationFolder(tmp_path)
    folder.add_set("test", ITEMS)
    folder.add_judge(JudgeEntry(name="half"))
    folder.append("test", "half", [perfect(item) for item in ITEMS[::2]])
    result = measure_folder(folder, rounds=20).sections[0].results[0]
    asked = result.questions["history"]
    assert (asked.items, asked.unanswered, result.failures) == (40, 20, 20)
    assert asked.figures["accuracy"].value == 0.5
    assert sum(row[-1] for row in asked.confusion) == 20


def test_a_perfect_judge_is_perfect_and_nothing_stands_out() -> None:
    measured = measure(ITEMS, {item.id: perfect(item) for item in ITEMS})
    for question, name in COLUMNS:
        assert measured.result.questions[question].figures[name].value == 1.0
    history = measured.result.questions["history"]
    for name in ("accuracy", "recall_false", "recall_true"):
        low, high = history.figures[name].low, history.figures[name].high
        assert low is not None and 0.4 < low < 0.95 and high == 1.0, "40 of 40 is not certainty"
    assert history.figures["recall_false"].low < history.figures["accuracy"].low, "fewer items, less certain"  # type: ignore[operator]
    assert signatures(measured) == []
    assert set(measured.result.by_language) == {"en", "zh"}
    assert set(measured.result.by_source) == {"esconv", "mesc", "compeer", "soulchat"}
    parts = [asked["history"].items for asked in measured.result.by_language.values()]
    assert sum(parts) == 40


def test_the_judges_of_the_baselines_say_what_they_are_called() -> None:
    said = always_true(ITEMS)
    assert all(step.value for judgement in said.values() for step in judgement.steps)
    result = measure(ITEMS, said).result
    assert result.questions["history"].figures["recall_false"].value == 0.0
    commonest = measure(ITEMS, majority(ITEMS, ITEMS)).result.questions["preference"]
    largest = max(sum(row) for row in commonest.confusion)
    assert commonest.figures["accuracy"].value == pytest.approx(largest / 39)


def test_a_difference_is_measured_in_the_same_rounds() -> None:
    resamples = Resamples([item.dialogue for item in ITEMS], 200)
    ours, same = measure(ITEMS, JUDGEMENTS, resamples), measure(ITEMS, JUDGEMENTS, resamples)
    best = measure(ITEMS, {item.id: perfect(item) for item in ITEMS}, resamples)
    nothing = difference(ours, same, "emotion", "accuracy")
    assert nothing is not None and (nothing.value, nothing.low, nothing.high) == (0.0, None, None)
    gain = difference(best, ours, "emotion", "accuracy")
    assert gain is not None and gain.value is not None and gain.low is not None and gain.low > 0
    assert gain.value == pytest.approx(1 - (ours.result.questions["emotion"].figures["accuracy"].value or 0))
    process = measure(ITEMS, JUDGEMENTS, resamples, kind="prm")
    assert difference(process, ours, "preference", "accuracy") is None


def told_by(steps: bool | None, preference: str | None, *, p: float | None = None, both: bool = False) -> MeasuredJudge:
    """A judge that says one thing, with a probability if it has one."""
    pairs = [PairVerdict(True, preference)] if preference else []
    if both:  # the first place wins, whoever stands there
        pairs = [PairVerdict(True, "candidate"), PairVerdict(False, "reference")]
    verdict = StepVerdict(steps, p)
    return measure(
        ITEMS,
        {item.id: Judgement(id=item.id, complete=True, steps=(verdict,) * 3, pairs=tuple(pairs)) for item in ITEMS},
    )


def test_failure_signatures_are_found_where_they_are() -> None:
    """Each sign with a judge that has it; the perfect judge above has none."""
    blind = signatures(told_by(True, "both"))
    assert {"low-recall-of-false", "one-class", "no-better-than-chance"} <= codes(blind)
    recall = next(entry for entry in blind if entry.code == "low-recall-of-false")
    assert recall.number == 0.0 and "0.0% (history), 0.0% (emotion), 0.0% (strategy)" in recall.text
    assert "unanswered" in codes(signatures(told_by(None, None)))
    assert "uncalibrated" in codes(signatures(told_by(True, "both", p=0.55)))
    swayed = next(entry for entry in signatures(told_by(True, None, both=True)) if entry.code == "position-bias")
    assert swayed.number == 1.0 and "leans to the first reply by 1.00" in swayed.text
    half = {item.id: msgspec.structs.replace(perfect(item), pairs=(PairVerdict(True, "both"),)) for item in ITEMS}
    gap = next(entry for entry in signatures(measure(ITEMS, half)) if entry.code == "process-outcome-gap")
    assert gap.number == pytest.approx(0.5) and "steps far better than replies" in gap.text


def test_a_judge_is_held_against_the_probe_and_a_probe_without_history_shows_a_leak() -> None:
    resamples = Resamples([item.dialogue for item in ITEMS], 200)
    strong = measure(ITEMS, {item.id: perfect(item) for item in ITEMS}, resamples, name="probe", role="probe")
    ours = measure(ITEMS, JUDGEMENTS, resamples, name="ours")
    assert "no-better-than-probe" in codes(signatures(ours, [strong]))
    weak = measure(ITEMS, always_true(ITEMS), resamples)  # without probabilities: balanced accuracy decides
    assert "no-better-than-probe" not in codes(signatures(strong, [weak]))
    assert "no-better-than-probe" in codes(signatures(weak, [strong]))
    assert codes(leaks(strong.result)) == {"text-leak"} and leaks(told_by(True, "both").result) == []


def test_reports_are_made_again_from_what_was_kept(tmp_path: Path) -> None:
    kept(tmp_path / "run", "first", "second", judges=("ours", "again"))
    made = write_report(EvaluationFolder.existing(tmp_path / "run"), tmp_path / "run", rounds=100)
    assert [section.set for section in made.sections] == ["first", "second"]
    assert [matrix.figure for matrix in made.matrices] == [
        "steps_weighted_f1",
        "steps_recall_false",
        "reply_weighted_f1",
    ]
    assert made.matrices[0].judges == ["ours", "again"] and made.matrices[0].sets == ["first, human", "second, human"]
    told = json.loads((tmp_path / "run" / "report.json").read_bytes())
    assert (
        told["sections"][0]["results"][0]["questions"]["history"]["confusion"]
        == made.sections[0].results[0].questions["history"].confusion
    )
    outcome = CliRunner().invoke(
        app,
        [
            "reward",
            "eval",
            "--from",
            str(tmp_path / "run"),
            "--out",
            str(tmp_path / "again"),
            "--rounds",
            "100",
            "--json",
        ],
    )
    assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "again" / "report.json").read_bytes() == (tmp_path / "run" / "report.json").read_bytes()
    assert (tmp_path / "again" / "report.md").read_text() == (tmp_path / "run" / "report.md").read_text()
    page = (tmp_path / "again" / "report.html").read_text()
    assert page.count("<svg") > 10 and "judges-1-2-preference-roc" in page and "judges-1-1-history-calibration" in page
    with pytest.raises(UserError, match="no kept judgements"):
        EvaluationFolder.existing(tmp_path / "elsewhere")


def test_the_papers_rows_stand_apart_and_are_marked() -> None:
    lines = paper_table()
    assert "not comparable" in lines[0]
    rows = [line for line in lines if line.startswith("| ") and "judge" not in line]
    assert len(rows) == len(paper_figures()) == 11 and all("(paper)" in row for row in rows)
    assert paper_figures()["UnifiReward-P"] == (77.12, 67.23, 82.18, 36.04, 81.79, 44.65, 57.03, 61.15)


def test_other_items_or_another_judge_under_a_known_name_are_refused(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    with pytest.raises(UserError, match="other items named test"):
        folder.add_set("test", ITEMS[1:])
    with pytest.raises(UserError, match=r"another judge named ours \(identity differ\)"):
        folder.add_judge(JudgeEntry(name="ours", identity={"which": "else"}))
    folder.add_judge(JudgeEntry(name="ours", identity={"which": "ours"}))
    assert len(EvaluationFolder(tmp_path).run.judges) == 1


def test_a_stopped_run_asks_only_what_is_missing_or_failed(tmp_path: Path, tiny_model_dir: Path) -> None:
    from compeer.reward.local_judge import LocalJudge

    folder = EvaluationFolder(tmp_path)
    folder.add_labelled_set("test", ITEMS[:4])
    ask_judge(LocalJudge(str(tiny_model_dir)), folder, "tiny")
    file = next(tmp_path.glob("judgements/test/tiny.jsonl"))
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    failed = msgspec.structs.replace(msgspec.json.decode(lines[1], type=Judgement), failure="time: no answer")
    file.write_bytes(lines[0] + msgspec.json.encode(failed) + b"\n" + lines[2] + lines[3][:40])
    ask_judge(LocalJudge(str(tiny_model_dir)), folder, "tiny")
    after = file.read_bytes().splitlines()
    assert [json.loads(line)["id"] for line in after] == ["d01#1", "d01#2", "d01#3", "d01#2", "d02#1"]
    assert all(judgement.failure is None for judgement in folder.judgements("test", "tiny").values())


def test_judges_of_every_home_stand_side_by_side_from_the_command_line(tmp_path: Path, tiny_model_dir: Path) -> None:
    """A unified judge, a pair of PRM and ORM, and a chat model behind HTTP, with the same prompts."""
    source = tmp_path / "test.jsonl"
    write_rows(source, ITEMS[:5])
    tiny = f"hf:{tiny_model_dir}"
    with ScriptedEndpoint(answer="verdict") as endpoint:
        words = ["reward", "eval", str(source), "--model", f"unified={tiny}", "--model", f"PRM+ORM={tiny},{tiny}"]
        words += [
            "--model",
            "openai:scripted",
            "--base-url",
            endpoint.base_url,
            "--out",
            str(tmp_path / "run"),
            "--orders",
            "--rounds",
            "50",
        ]
        outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == 0, outcome.output
    assert "What stands out" in outcome.output and "UnifiReward-P (paper)" in outcome.output
    told = json.loads((tmp_path / "run" / "report.json").read_bytes())
    results = {entry["name"]: entry for entry in told["sections"][0]["results"]}
    assert list(results) == ["unified", "PRM+ORM", "scripted", "always True", "majority"]
    for name in ("unified", "PRM+ORM", "scripted"):
        assert results[name]["failures"] == 0
        assert results[name]["questions"]["history"]["unanswered"] == 0
        assert results[name]["position"]["twice"] == 5
    assert [entry["name"] for entry in told["judges"]] == ["unified", "PRM+ORM", "scripted"]
    assert all(entry["orders"] == "both" for entry in told["judges"])
    assert "PRM+ORM" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reward", "eval"], "Give ITEMS"),
        (["reward", "eval", "items.jsonl", "--from", "run"], "takes no ITEMS"),
        (["reward", "eval", "missing.jsonl", "--model", "hf:x"], "cannot be read"),
    ],
)
def test_commands_that_cannot_work_say_why(words: list[str], message: str) -> None:
    outcome = CliRunner().invoke(app, words)
    assert isinstance(outcome.exception, UserError) and message in str(outcome.exception)
