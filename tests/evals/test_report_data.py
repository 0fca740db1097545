"""What the report says, before any browser: which runs share a table, the paper's figures, differences, Markdown."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import xml.etree.ElementTree
from pathlib import Path

import msgspec
import pytest
from tests.cli.command import compeer
from tests.evals.made_runs import GPT, RANK, esc_run, judge_study, reward_run, sage_run
from tests.studio.material import policy_run

from compeer.errors import UserError
from compeer.evals.report import write_report
from compeer.evals.report.charts import Caption, Chart, Dot, distribution, forest, slopes
from compeer.evals.report.gather import ReportRun, RunGroup, gather
from compeer.evals.report.pictures import PictureWords, by_scale, group_charts, judge_charts, training_charts
from compeer.evals.report.tables import (
    case_score,
    differences,
    group_tables,
    odd_average,
    paired,
    paper_columns,
    paper_table,
)
from compeer.evals.result import Result, Transcript, load_result, load_transcripts, save_result
from compeer.statistics import Figure


def test_another_simulator_is_another_table_and_a_sentence_says_why(tmp_path: Path) -> None:
    sage_run(tmp_path / "a", "model-a", count=12)
    sage_run(tmp_path / "b", "model-b", count=12, drift=2, seed=2)
    sage_run(tmp_path / "c", "model-c", count=12, simulator="simulator-b")
    gathered = gather([tmp_path / name for name in "abc"])
    assert [[run.label for run in group.runs] for group in gathered.groups] == [["model-a", "model-b"], ["model-c"]]
    assert gathered.groups[1].apart == (
        "Another measurement than the table before: simulator is simulator-b here and simulator-a there."
    )
    text = write_report([tmp_path / name for name in "abc"], tmp_path / "out").text.read_text(encoding="utf-8")
    tables = re.findall(r"\| model \| Sentient.*?\n\n", text, re.DOTALL)
    rows = [re.findall(r"^\| (model-\w)", table, re.MULTILINE) for table in tables]
    assert rows == [["model-a", "model-b"], [], ["model-c"]], "the second is the paper's"


def test_judges_stand_in_columns_of_their_own_and_beside_them_their_mean(tmp_path: Path) -> None:
    result = esc_run(tmp_path / "a", "model-a", count=30)
    (group,) = gather([tmp_path / "a"]).groups
    main, by_judge = group_tables(group)
    assert main.columns[-1] == "Average"
    assert [row.beside for row in main.rows] == ["30 cases"], "all thirty are English"
    assert by_judge.columns == (RANK, GPT, "mean of judges")
    for row in by_judge.rows:
        rank, gpt, mean = (cell.value for cell in row.cells if cell)
        assert mean == pytest.approx((rank + gpt) / 2)
    average = result.figure("Average")
    assert average is not None
    assert main.rows[0].cells[-1] == average


def test_each_language_stands_below_its_model(tmp_path: Path) -> None:
    esc_run(tmp_path / "a", "model-a")
    main = group_tables(gather([tmp_path / "a"]).groups[0])[0]
    assert [(row.name, row.beside) for row in main.rows] == [("model-a", "91 cases"), ("", "English"), ("", "Chinese")]


def test_the_paper_s_figures_are_marked_and_its_four_odd_averages_too() -> None:
    table = paper_table("esc-eval")
    assert table is not None
    odd = {str(row[0]): odd_average(row) for row in table.rows if odd_average(row)}
    assert odd == {"InternLM3": 76.51, "COMPEER-POR": 77.7, "COMPEER-UR": 80.07, "COMPEER-URP": 82.6}
    shown = paper_columns("esc-eval")
    assert shown is not None
    assert shown.paper
    assert sum(bool(row.marks) for row in shown.rows) == 4
    sage = paper_table("sage")
    assert sage is not None
    assert sage.rows[-1] == ("COMPEER-URP", "with reasoning", 48.93, 7, 13)
    assert paper_columns("diversity") is None


def test_two_runs_on_the_same_cases_are_compared_case_by_case(tmp_path: Path) -> None:
    sage_run(tmp_path / "a", "model-a", drift=0, seed=1)
    sage_run(tmp_path / "b", "model-b", drift=3, seed=1)
    group = gather([tmp_path / "a", tmp_path / "b"]).groups[0]
    (pair,) = paired(group)
    assert (pair.first.label, pair.second.label) == ("model-b", "model-a")
    found = {figure.name: figure for figure in pair.differences}
    means = [load_result(tmp_path / name).figure("Sentient") for name in "ab"]
    assert found["Sentient"].value == pytest.approx(means[1].value - means[0].value)  # type: ignore[union-attr]
    assert found["Sentient"].low > 0  # type: ignore[operator]

    # the cases differ more than the models: the paired interval is narrower than that of either mean
    def width(figure: Figure) -> float:
        return (figure.high or 0.0) - (figure.low or 0.0)

    assert width(found["Sentient"]) < width(means[0]) + width(means[1])
    assert differences(group.runs[0], group.runs[0])[0] == Figure("Sentient", 0.0, n=91)


def test_a_judge_that_gave_no_number_leaves_the_other_s(tmp_path: Path) -> None:
    esc_run(tmp_path / "a", "model-a", count=8)
    samples = [
        msgspec.structs.replace(one, scores={**one.scores, f"{GPT}/fluency": None})
        for one in load_transcripts(tmp_path / "a")
    ]
    save_result(tmp_path / "b", load_result(tmp_path / "a"), samples)
    first, second = gather([tmp_path / "a", tmp_path / "b"]).groups[0].runs
    assert (first.label, second.label) == ("model-a (a)", "model-a (b)")
    found = {figure.name: figure for figure in differences(first, second)}
    gap = [one.scores[f"{GPT}/fluency"] - one.scores[f"{RANK}/fluency"] for one in load_transcripts(tmp_path / "a")]  # type: ignore[operator]
    assert found["Fluency"].value == pytest.approx(25 * sum(gap) / len(gap) / 2)
    assert found["Empathy"].value == 0


def test_the_command_writes_both_forms_and_names_what_is_missing(tmp_path: Path) -> None:
    sage_run(tmp_path / "a", "model|a <b>", count=8)
    done = compeer("eval", "report", str(tmp_path / "a"), "--out", str(tmp_path / "out"), "--most", "5", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["runs"], told["transcripts"], told["left_out"]) == (1, 5, 3)
    text = Path(told["text"]).read_text(encoding="utf-8")
    assert "model\\|a &lt;b>" in text
    assert "COMPEER-URP, with reasoning | 48.93 | 7 | 13 |" in text
    assert "The same tested model scored 52 with one simulator and 32" in text
    assert "simulator: simulator-a" in text
    missing = compeer("eval", "report", str(tmp_path / "none"), "--out", str(tmp_path / "out"))
    assert missing.returncode == 1
    assert "has no result.json" in missing.stderr


def test_a_benchmark_of_another_name_gets_a_plain_table(tmp_path: Path) -> None:
    result = Result("kindness", "m", {"judge": "j"}, (Figure("warm", 0.5, 0.4, 0.6, 9), Figure("count", 3, n=9)))
    save_result(tmp_path / "a", result)
    text = write_report([tmp_path / "a"], tmp_path / "out").text.read_text(encoding="utf-8")
    assert "| warm | 0.500 [0.400 to 0.600] |" in text
    assert "| count | 3 |" in text
    with pytest.raises(UserError, match="at least one folder"):
        write_report([], tmp_path / "out")


def test_a_dialogue_is_listed_by_its_reward_and_never_by_a_mean_over_scales() -> None:
    parts = dict.fromkeys(("history", "emotion", "strategy", "preference", "complete"), 1.0)
    sample = Transcript("a", "en", (), {"reward": 5.0, **parts})
    assert case_score("reward", sample) == ("reward", 5.0)
    assert case_score("diversity", Transcript("a", "en", (), {"length": 20.0, "echo": 0.1})) is None
    assert case_score("esc-eval", Transcript("a", "en", (), {"j/fluency": 4.0, "j/tech": 1.0, "j/human": None})) == (
        "mean rating, 0 to 4",
        2.5,
    )
    assert case_score("sage", Transcript("a", "en", (), {"emotion": 30.0}, (40, 30))) == ("Sentient", 30)
    assert case_score("kindness", Transcript("a", "en", (), {"warm": 0.5})) == ("warm", 0.5)
    assert case_score("safety", Transcript("a", "en", (), {"met": 0.0, "noticed": 1.0})) == ("met", 0.0)


def test_nothing_is_bold_where_the_run_says_that_differences_are_chance(tmp_path: Path) -> None:
    for name, drift in (("a", 0.0), ("b", 9.0)):
        result = sage_run(tmp_path / name, f"model-{name}", count=20, drift=drift)
        samples = list(load_transcripts(tmp_path / name))
        small = msgspec.structs.replace(result, differences_are_chance=True)
        save_result(tmp_path / f"small-{name}", small, samples)
    large = write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert "**" in large.text.read_text(encoding="utf-8").split("minus")[1].split("##")[0]
    assert 'class="sure"' in large.page.read_text(encoding="utf-8")
    small_report = write_report([tmp_path / "small-a", tmp_path / "small-b"], tmp_path / "small")
    text = small_report.text.read_text(encoding="utf-8")
    assert "**" not in text.split("minus")[1].split("##")[0] and "so nothing is marked" in text
    assert 'class="sure"' not in small_report.page.read_text(encoding="utf-8")


def test_a_constant_difference_is_no_evidence(tmp_path: Path) -> None:
    """Six of six cases one point apart: a bootstrap would say "1.000 to 1.000"."""
    for name, value in (("a", 0.0), ("b", 1.0)):
        samples = [Transcript(str(n), "en", (), {"warm": value}) for n in range(6)]
        save_result(tmp_path / name, Result("kindness", name, {}, (Figure("warm", value, n=6),)), samples)
    (pair,) = paired(gather([tmp_path / "a", tmp_path / "b"]).groups[0])
    assert pair.differences == (Figure("warm", 1.0, n=6),)


def test_strategy_bars_carry_their_own_labels_and_panels_share_a_scale() -> None:
    entries = {
        "en": {"model": {"question": 9, "others": 1}, "people": {"question": 1, "others": 1}, "source": "people"},
        "zh": {"model": {"question": 1, "others": 3}, "people": {"question": 1, "others": 1}, "source": "people"},
    }
    run = ReportRun(0, Path("run"), "m", Result("diversity", "m", {}, (), {"strategies": entries}), (), 0)
    charts = group_charts(RunGroup("diversity", (run,)))
    assert len(charts) == 2
    widths = []
    for chart in charts:
        row = next(part for part in chart.svg.split("<g>") if "question: m" in part)
        bar = re.search(r'<rect class="bar" x="(\d+)" y="[\d.]+" width="([\d.]+)"', row)
        label = re.search(r'<text class="model" x="([\d.]+)" y="[\d.]+">(\d+)%', row)
        end = re.search(r'<circle class="people-end" cx="([\d.]+)"', row)
        theirs = re.search(r'<text class="people-share" x="([\d.]+)" y="[\d.]+">(\d+)%', row)
        assert bar and label and end and theirs
        assert float(label[1]) - (float(bar[1]) + float(bar[2])) == pytest.approx(6, abs=0.2)
        assert float(theirs[1]) - float(end[1]) == pytest.approx(8, abs=0.2)
        assert theirs[2] == "50"
        widths.append((int(label[2]), float(bar[2])))
    (first, wide), (second, narrow) = widths
    assert (first, second) == (90, 25) and wide / narrow == pytest.approx(90 / 25, rel=0.01)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Chart]]:
    """A report of everything that has figures, and the figures."""
    folder = tmp_path_factory.mktemp("drawn")
    reward_run(folder / "before", "before")
    reward_run(folder / "after", "after", lift=0.3)
    sage_run(folder / "sage", "after", count=20)
    esc_run(folder / "esc", "after", count=12)
    policy_run(folder / "grpo", 40)
    judge_study(folder / "judges")
    runs = [folder / name for name in ("before", "after", "sage", "esc", "grpo", "judges")]
    gathered = gather(runs)
    charts = [chart for group in gathered.groups for chart in group_charts(group)]
    charts += [
        chart for _, study in gathered.judging for section in study.sections for chart in judge_charts("j", section)
    ]
    charts += training_charts(gathered.training)
    return write_report(runs, folder / "out").page, charts


def test_pictures_stand_before_tables_and_none_is_missing(drawn: tuple[Path, list[Chart]]) -> None:
    page, charts = drawn
    names = [chart.name for chart in charts]
    assert len(set(names)) == len(names)
    kinds = ("differences", "cases", "distribution", "results", "stages", "emotion", "judges", "agreement", "roc",
             "calibration", "metric")  # fmt: skip
    assert [kind for kind in kinds if not any(kind in name for name in names)] == []
    text = page.read_text(encoding="utf-8")
    assert text.index("<figure") < text.index("<table") and text.count("<figure") == len(charts)
    for chart in charts:
        assert f'aria-label="{html.escape(chart.says)}"' in text.replace("&#39;", "&#x27;").replace("&#34;", "&quot;")
        assert len(chart.says) > 30 and "None" not in chart.says and "{" not in chart.says


def test_every_figure_is_a_file_of_its_own_in_three_forms(drawn: tuple[Path, list[Chart]]) -> None:
    for chart in drawn[1]:
        root = xml.etree.ElementTree.fromstring(chart.svg_file())
        assert root.tag == "{http://www.w3.org/2000/svg}svg", chart.name
        style = root[0].text or ""
        assert "var(" not in style and "light-dark" not in style and "#2F6F6A" in style
        rows = list(csv.reader(io.StringIO(chart.csv_file())))
        assert tuple(rows[0]) == chart.head and len(rows) == len(chart.rows) + 1 > 1
        assert {len(row) for row in rows} == {len(chart.head)}
        lines = [line for line in chart.latex_file().splitlines() if line.endswith(r"\\")]
        assert len(lines) == len(chart.rows) + 1
        assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(chart.head) - 1}


def test_latex_escapes_what_models_are_called() -> None:
    chart = distribution(Caption("d", "50 % of a_b", "says"), [("a_b & c#1", 0, [1.0, 2.0, 2.0])], below="x^2")
    text = chart.latex_file()
    assert r"\caption{50 \% of a\_b}" in text and r"x\textasciicircum{}2 & a\_b \& c\#1 \\" in text
    assert r"2 & 2 \\" in text


def test_a_forest_puts_differences_where_they_belong_and_chance_is_hollow(tmp_path: Path) -> None:
    certain, open_ = Figure("reward", 2.0, 1.0, 3.0, 9), Figure("history", -0.1, -0.3, 0.1, 9)
    dots = [Dot("reward", certain), Dot("history", open_, hollow=True)]
    chart = forest(Caption("f", "t", "says"), by_scale(dots, "reward", PictureWords("en")), zero=True)
    assert [row[0] for row in chart.rows] == ["history", "reward"], "shares and rewards have axes of their own"
    places = {
        row: [float(one) for one in re.findall(r'(?:x1|x2|cx)="([\d.]+)"', part.split("</title>")[1])]
        for part in chart.svg.split("<title>")[1:]
        for row in [part.partition(":")[0]]
    }
    for figure in (certain, open_):
        low, high, value = places[figure.name][:3]
        assert (value - low) / (high - low) == pytest.approx(0.5, abs=0.01), figure.name
    assert chart.svg.count('class="ring"') == 1 and chart.svg.count('class="dot"') == 1
    # the whole way: runs that say they are too small have hollow dots only
    for name, lift in (("a", 0.0), ("b", 0.4)):
        result = reward_run(tmp_path / name, name, lift=lift)
        small = msgspec.structs.replace(result, differences_are_chance=True)
        save_result(tmp_path / f"small-{name}", small, list(load_transcripts(tmp_path / name)))
    (large,) = gather([tmp_path / "a", tmp_path / "b"]).groups
    (little,) = gather([tmp_path / "small-a", tmp_path / "small-b"]).groups
    assert 'class="dot"' in group_charts(large)[0].svg and 'class="dot"' not in group_charts(little)[0].svg


def test_figures_of_one_scale_share_an_axis_however_small_they_are() -> None:
    def panels(benchmark: str, *figures: Figure) -> list[list[str]]:
        return [
            [dot.row for dot in dots]
            for _, dots in by_scale([Dot(one.name, one) for one in figures], benchmark, PictureWords("en"))
        ]

    high, low = Figure("Fluency", 80.0, 75.0, 85.0, 9), Figure("Humanoid", 4.0, 3.5, 4.5, 9)
    assert panels("esc-eval", high, low) == [["Fluency", "Humanoid"]]
    reward, share = Figure("reward", 0.2, -0.4, 0.8, 9), Figure("complete", 0.5, 0.2, 0.8, 9)
    assert panels("reward", reward, share) == [["complete"], ["reward"]], "a small reward is not drawn as a share"
    percent, gain = Figure("percent", 61.0, 55.0, 67.0, 9), Figure("gain", -0.02, -0.05, 0.01, 9)
    assert panels("x", percent, gain, Figure("large", 400.0, 300.0, 500.0)) == [["gain"], ["percent"], ["large"]]
    # a negative bound has a place, and the axis goes as far
    svg = forest(Caption("f", "t", "says"), [("", [Dot("gain", gain)])]).svg
    whisker = re.search(r'class="whisker" x1="([\d.]+)" y1="[\d.]+" x2="([\d.]+)"', svg)
    assert whisker and float(whisker[2]) - float(whisker[1]) > 100


def test_slopes_and_distribution_count_cases() -> None:
    cases = [("a", 1.0, 3.0), ("b", 1.0, 3.0), ("c", 5.0, 5.0), ("d", 4.0, 1.0)]
    chart = slopes(Caption("s", "t", "says"), ("before", "after"), cases)
    assert chart.rows[3] == ("d", 4.0, 1.0, -3.0)
    assert [chart.svg.count(f"slope {kind}") for kind in ("rose", "fell", "same")] == [1, 1, 1]
    assert "1 to 3: 2</title>" in chart.svg
    made = distribution(Caption("d", "t", "says"), [("x", 0, [-5.0, 5.0, 5.0]), ("y", 1, [5.0])])
    assert made.rows[0] == ("-5", 1.0, 0.0) and made.rows[-1] == ("5", 2.0, 1.0) and len(made.rows) == 11
    assert "x, 5: 2 (67%)" in made.svg
    wide = distribution(Caption("d", "t", "says"), [("x", 0, [-24.0, 91.5, 100.0])])
    assert sum(row[1] for row in wide.rows) == 3 and wide.rows[0][0] == "-40 to -20"  # type: ignore[misc]


def test_judges_are_drawn_as_they_were_measured(drawn: tuple[Path, list[Chart]]) -> None:
    charts = {chart.name: chart for chart in drawn[1]}
    agreement, roc = charts["j-history-agreement-example-judge"], charts["j-history-roc"]
    counts = [[int(cell) for cell in row[1:] if isinstance(cell, int | float)] for row in agreement.rows]
    same, whole = counts[0][0] + counts[1][1], sum(map(sum, counts))
    assert f"{same} of {whole} agree" in agreement.note and whole == 60
    xs, ys = ([row[place] for row in roc.rows] for place in (1, 2))
    area = sum((b - a) * (c + d) / 2 for a, b, c, d in zip(xs, xs[1:], ys, ys[1:], strict=False))  # type: ignore[operator]
    assert f"AUC {area:.2f}" in roc.note and area > 0.6
    assert "ECE" in charts["j-history-calibration"].note
