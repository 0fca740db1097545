"""docs/performance.md is made from benchmarks/results.json; and one benchmark's failure is told and stops no other.

No speed is measured here: the benchmarks that are really started are one that ends within a second, one that cannot
run, and one that is not given any time.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from benchmarks import __main__ as command
from benchmarks import results, table
from benchmarks.attempt import attempt
from benchmarks.catalogue import CATALOGUE, NAMES, Benchmark
from benchmarks.machine import Machine, machine
from benchmarks.measure import Missing, Ratio
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "performance.md"
PLAIN = {"title": "A title", "ours": "ours", "theirs": "theirs", "wanted": "", "minutes": 0.1}


def entry(**changed: object) -> results.Entry:
    known = {"measured": "2026-01-01 10:00", "seconds": 3.0, "revision": "abc", "load": 0.5}
    return results.Entry(machine=Machine(2, "a processor", 24, "3.11"), **known | changed)  # type: ignore[arg-type]


def ratio(value: float, wanted: float | None = None) -> Ratio:
    return Ratio(what="a | b", ours=value, theirs=1.0, against="a peer", unit="s", wanted=wanted, at_least=False)


def test_the_page_is_what_the_file_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert table.filled(text, results.read()) == text, "python -m benchmarks table writes it again"


def test_every_benchmark_has_a_module_and_takes_less_than_six_minutes() -> None:
    for one in CATALOGUE:
        source = (ROOT / "benchmarks" / f"{one.name}.py").read_text(encoding="utf-8")
        assert "\ndef run(" in source and one.minutes < 6, one.name
    others = {"attempt", "catalogue", "machine", "measure", "one", "results", "table"}
    files = {file.stem for file in (ROOT / "benchmarks").glob("*.py") if not file.stem.startswith("_")}
    assert files - others == set(NAMES), "a benchmark that is not in the catalogue is never run"


def test_the_table_names_what_was_missed_what_failed_and_what_is_not_there() -> None:
    entries = {
        "start_up": entry(ratios=(ratio(2.0, wanted=3.0), ratio(4.0, wanted=3.0))),
        "judge": entry(failed="the package torch is not installed"),
        "stage_runner": entry(
            ratios=(ratio(0.5),), missing=(Missing(what="rows", against="curator", reason="no network"),)
        ),
    }
    shown = table.results(entries)
    assert "| Start-up | a \\| b | 2 s | a peer | 1 s | 2.00 | at most 3 | yes |" in shown
    assert "| 4.00 | at most 3 | **no** |" in shown
    assert "| Judge scoring | could not be measured: the package torch is not installed |" in shown
    assert "| LLM stages | rows |  | curator |  | not compared: no network |" in shown
    assert "| GRPO step | not measured yet |" in shown


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="benchmarks: results"):
        table.filled("# Performance\n", {})


def test_what_cannot_run_becomes_an_entry_with_its_reason() -> None:
    lacking = Benchmark(name="judge", packages={"no_such_package": "'.[train]'"}, **PLAIN)  # type: ignore[arg-type]
    assert attempt(lacking, 10).failed == "the package no_such_package is not installed: pip install '.[train]'"
    broken = attempt(Benchmark(name="measure", **PLAIN), 60)  # type: ignore[arg-type]  # a module without `run`
    assert broken.failed and "has no attribute 'run'" in broken.failed
    slow = attempt(Benchmark(name="start_up", **PLAIN), 0)  # type: ignore[arg-type]
    assert slow.failed == "not done after 0 s" and not slow.ratios


def test_a_run_replaces_its_own_entries_and_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.attempt.revision", lambda: "abc1234")  # the same, whoever edits a file meanwhile
    monkeypatch.setattr(command, "revision", lambda: "abc1234")
    file, page = tmp_path / "results.json", tmp_path / "page.md"
    shutil.copy(PAGE, page)
    where = ["--results", str(file), "--page", str(page)]
    results.merge("judge", entry(ratios=(ratio(1.5),)), file)
    assert command.main(["parsing", *where]) == 0
    known = results.read(file)
    assert set(known) == {"judge", "parsing"} and known["judge"].ratios == (ratio(1.5),)
    assert known["parsing"].machine == machine() and known["parsing"].ratios[0].theirs > 0
    assert "validated dialogues read" in page.read_text(encoding="utf-8")
    capsys.readouterr()
    others = [name for name in NAMES if name != "parsing"]
    assert command.main(["--skip", *others, *where]) == 0
    assert "measured before at this revision: parsing" in capsys.readouterr().out
    assert results.read(file) == known


def test_a_name_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["jugde"]) == 2
    assert "There is no benchmark 'jugde'" in capsys.readouterr().err
