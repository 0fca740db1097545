"""Scoring files: rows in order, what cannot be judged marked, and stopping it at any moment costs nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.endpoints.process import ROOT, environment
from tests.reward.judge_process import JudgeProcess
from tests.reward.rule_judge import RuleJudge

from compeer.cer import gold
from compeer.cer.item import Candidate, Item
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.pipeline.ledger import NoAnswers
from compeer.pipeline.stage import Progress
from compeer.reward.case import Case, case_of
from compeer.reward.judge import Judgement, Orders, PairVerdict, Scored, StepVerdict, score_of
from compeer.reward.remote_judge import RemoteJudge
from compeer.reward.score_file import ScoreSummary, score, summarised

QUIET = Progress(quiet=True)


def items_of(count: int) -> list[Item]:
    return list(gold.load())[:count]


def written(folder: Path, items: Sequence[Item], name: str = "items.jsonl") -> Path:
    write_rows(folder / name, items)
    return folder / name


def run(source: Path, out: Path, judge: Any = None, **options: Any) -> ScoreSummary:
    return score(source, out, judge or RuleJudge(), progress=QUIET, **options)


def rows(path: Path) -> list[Scored]:
    return list(read_rows(path, Scored))


class TestRows:
    @pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
    def test_each_item_has_its_judgement_parts_and_total(self, tmp_path: Path, suffix: str) -> None:
        items = items_of(40)
        source = written(tmp_path, items, "items.jsonl" + suffix)
        summary = run(source, tmp_path / f"scores.jsonl{suffix}", orders="both", window=16)
        judged = asyncio.run(RuleJudge().judge([case_of(item) for item in items], orders="both"))
        assert rows(tmp_path / f"scores.jsonl{suffix}") == [score_of(one) for one in judged]
        assert summary.items == summary.judged == 40 and summary.rejected == {} and summary.unjudged == {}
        assert summary.means["total"] == pytest.approx(sum(one.total for one in judged) / 40)
        assert sum(summary.means[part] for part in one_part()) == pytest.approx(summary.means["total"], abs=1e-4)
        assert sum(summary.totals.values()) == 40 and summary.tokens == 4000

    def test_rows_without_a_candidate_and_broken_lines_are_rejected_and_end_nothing(self, tmp_path: Path) -> None:
        items = items_of(6)
        bare = msgspec.structs.replace(items[1], candidate=None)
        lines = [msgspec.json.encode(item) for item in (items[0], bare, *items[2:])]
        source = tmp_path / "items.jsonl"
        source.write_bytes(b"\n".join([*lines[:3], b'{"id": "half', b"", *lines[3:]]) + b"\n")
        summary = run(source, tmp_path / "scores.jsonl")
        assert [row.id for row in rows(tmp_path / "scores.jsonl")] == [item.id for item in (items[0], *items[2:])]
        assert summary.rejected == {"no-candidate": 1, "unreadable": 1} and summary.items == 7
        rejects = [json.loads(line) for line in (tmp_path / "scores.rejects.jsonl").read_text().splitlines()]
        assert [(one["id"], one["reason"]) for one in rejects] == [(bare.id, "no-candidate"), ("line 4", "unreadable")]

    def test_an_incomplete_candidate_is_judged_by_what_is_there(self, tmp_path: Path) -> None:
        item = msgspec.structs.replace(
            items_of(1)[0], candidate=Candidate(response="Fine.", raw="<think></think>Fine.")
        )
        run(written(tmp_path, [item]), tmp_path / "scores.jsonl")
        (row,) = rows(tmp_path / "scores.jsonl")
        assert row.parts is not None and [row.parts[name] for name in one_part()[:3]] == [-1, -1, -1]
        assert row.parts["format"] == -1

    def test_candidates_of_one_history_are_judged_in_one_call(self, tmp_path: Path) -> None:
        items = [msgspec.structs.replace(item, id=f"{item.id}/{turn}") for item in items_of(10) for turn in range(4)]
        judge = RuleJudge()
        run(written(tmp_path, items), tmp_path / "scores.jsonl", judge, window=10)
        assert judge.calls == [1, 12, 12, 12, 4]  # the first is the one that loads the weights

    def test_the_output_must_not_be_the_input(self, tmp_path: Path) -> None:
        source = written(tmp_path, items_of(2))
        with pytest.raises(UserError, match="is the input itself"):
            run(source, source)


def one_part() -> tuple[str, ...]:
    return ("history", "emotion", "strategy", "preference", "format")


def _noted(out: Path) -> int:
    """Lines of the input that are safely done, as the run's state says."""
    state = out.with_name("scores.state.json")
    return int(json.loads(state.read_bytes())["lines"]) if state.exists() else 0


class TestResuming:
    def test_killed_twice_it_ends_as_if_undisturbed(self, tmp_path: Path) -> None:
        source = written(tmp_path, items_of(160))
        calm, out = tmp_path / "calm" / "scores.jsonl", tmp_path / "killed" / "scores.jsonl"
        run(source, calm, orders="both", window=16)
        for noted in (16, 80):
            words = [sys.executable, "-m", "tests.reward.score_file_run", str(source), str(out), "0.15"]
            process = subprocess.Popen(words, cwd=ROOT, env=environment())
            deadline = time.monotonic() + 60
            while _noted(out) < noted:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
            process.kill()
            process.wait()
            assert not out.exists()
        judge = RuleJudge()
        before = _noted(out)
        run(source, out, judge, orders="both", window=16)
        assert out.read_bytes() == calm.read_bytes()
        assert out.with_name("scores.rejects.jsonl").read_bytes() == b""
        assert len(judge.seen) - 1 == 160 - before  # and nothing else again
        summaries = [json.loads(path.with_name("scores.summary.json").read_bytes()) for path in (calm, out)]
        assert summaries[0] | {"out": ""} == summaries[1] | {"out": ""}
        manifest = json.loads(out.with_name("scores.manifest.json").read_bytes())
        assert manifest["sessions"] == 3 and manifest["fingerprint"]["params"]["judge's weights"] == "a"

    def test_a_finished_run_has_nothing_to_do(self, tmp_path: Path) -> None:
        source = written(tmp_path, items_of(5))
        first = run(source, tmp_path / "scores.jsonl")
        judge = RuleJudge()
        assert run(source, tmp_path / "scores.jsonl", judge) == first and judge.calls == []

    def test_a_limited_run_is_extended_without_judging_again(self, tmp_path: Path) -> None:
        source = written(tmp_path, items_of(30))
        run(source, tmp_path / "scores.jsonl", limit=10)
        assert len(rows(tmp_path / "scores.jsonl")) == 10
        judge = RuleJudge()
        run(source, tmp_path / "scores.jsonl", judge)
        assert len(rows(tmp_path / "scores.jsonl")) == 30 and len(judge.seen) == 1 + 20

    def test_another_judge_is_refused_unless_fresh(self, tmp_path: Path) -> None:
        source = written(tmp_path, items_of(5))
        run(source, tmp_path / "scores.jsonl")
        with pytest.raises(UserError, match="made with other settings: judge's weights was a, is b"):
            run(source, tmp_path / "scores.jsonl", RuleJudge(salt="b"))
        with pytest.raises(UserError, match="orders was one, is both"):
            run(source, tmp_path / "scores.jsonl", orders="both")
        run(source, tmp_path / "scores.jsonl", RuleJudge(salt="b"), fresh=True)
        judged = asyncio.run(RuleJudge(salt="b").judge([case_of(item) for item in items_of(5)]))
        assert rows(tmp_path / "scores.jsonl") == [score_of(one) for one in judged]


class Moody(RuleJudge):
    """Fails on the cases it is told to, as a server does that is overloaded."""

    def __init__(self, fails: set[str]) -> None:
        super().__init__()
        self.fails = fails

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        answers = await super().judge(cases, orders=orders)
        return [
            Judgement(id=one.id, complete=one.complete, failure="time: no answer") if one.id in self.fails else one
            for one in answers
        ]


class TestUnjudged:
    def test_it_is_marked_counted_and_judged_again_when_the_run_is_repeated(self, tmp_path: Path) -> None:
        items = items_of(20)
        source, out = written(tmp_path, items), tmp_path / "scores.jsonl"
        summary = run(source, out, Moody({items[3].id, items[7].id}))
        assert summary.unjudged == {"time": 2} and summary.judged == 18 and summary.rejected == {}
        marked = [row for row in rows(out) if row.total is None]
        assert [row.id for row in marked] == [items[3].id, items[7].id]
        assert all(row.parts is None and row.judgement.failure == "time: no answer" for row in marked)
        judge = RuleJudge()
        summary = run(source, out, judge)
        assert summary.unjudged == {} and summary.judged == 20
        assert judge.seen[1:] == [items[3].id, items[7].id]
        assert [row.id for row in rows(out)] == [item.id for item in items]

    def test_a_judge_that_dies_stops_the_run_and_it_goes_on_later(self, tmp_path: Path) -> None:
        items = items_of(120)
        source, out = written(tmp_path, items), tmp_path / "scores.jsonl"
        with JudgeProcess(delay=0.07, batch=4) as process:
            killed = False

            class Killer(Progress):
                def tick(self, counts: Any, spent: Any) -> None:
                    nonlocal killed
                    if counts.rows_in >= 32 and not killed:
                        killed = True
                        threading.Timer(0.1, process.kill).start()  # in the middle of the next window

            with pytest.raises(NoAnswers, match=r"Stopped after \d+ items: the judge does not answer"):
                score(source, out, RemoteJudge(process.url), window=16, budget=1.0, progress=Killer(quiet=True))
            assert killed and not out.exists()
            process.start()
            summary = run(source, out, RemoteJudge(process.url), window=16)
        assert summary.judged == 120 and summary.unjudged == {}
        judged = asyncio.run(RuleJudge().judge([case_of(item) for item in items]))
        assert rows(out) == [score_of(one) for one in judged]

    def test_a_judge_that_is_away_for_a_while_is_waited_for(self, tmp_path: Path) -> None:
        source, out = written(tmp_path, items_of(60)), tmp_path / "scores.jsonl"
        with JudgeProcess() as process:
            spoilt = False

            class Spoiler(Progress):
                def tick(self, counts: Any, spent: Any) -> None:
                    nonlocal spoilt
                    if counts.rows_in >= 16 and not spoilt:
                        spoilt = True
                        process.fault("500")
                        threading.Timer(0.5, process.fault, ["none"]).start()

            summary = score(source, out, RemoteJudge(process.url), window=16, budget=20, progress=Spoiler(quiet=True))
        assert spoilt and summary.judged == 60 and summary.unjudged == {}

    def test_a_window_that_the_judge_cannot_judge_is_marked_and_the_run_ends_well(self, tmp_path: Path) -> None:
        items = items_of(5)
        long = Candidate(response="UNJUDGEABLE")
        items = [*items[:4], msgspec.structs.replace(items[4], candidate=long)]
        summary = run(written(tmp_path, items), tmp_path / "scores.jsonl", window=4)
        assert summary.judged == 4 and summary.unjudged == {"judge": 1}
        assert summary.examples == {"judge": "the reply is too long"}

    def test_a_judge_that_cannot_be_opened_is_an_error_at_once(self, tmp_path: Path) -> None:
        class Broken(RuleJudge):
            async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
                raise UserError("The weights are not there.")

        with pytest.raises(UserError, match="The weights are not there"):
            run(written(tmp_path, items_of(3)), tmp_path / "scores.jsonl", Broken())


class TestPlaces:
    def test_the_sway_of_places_is_counted_by_hand(self) -> None:
        def row(name: str, first: str | None, second: str | None) -> Scored:
            pairs = [PairVerdict(True, first), PairVerdict(False, second)]  # type: ignore[arg-type]
            shown = tuple(pair for pair in pairs if pair.preference is not None)
            return score_of(Judgement(id=name, complete=True, steps=(StepVerdict(True),) * 3, pairs=shown))

        rows = (
            row("always first", "candidate", "reference"),
            row("steady candidate", "candidate", "candidate"),
            row("steady reference", "reference", "reference"),
            row("steady both", "both", "both"),
            row("half", "candidate", "neither"),
            row("one order", "candidate", None),  # says nothing about places
        )
        places = summarised(rows).places
        assert places is not None
        assert (places.swayed.value, places.swayed.n) == (2 / 5, 5)
        # first: always first twice, steady ones once each, half once; second: steady ones once each
        assert (places.first_won.value, places.first_won.n) == (5 / 7, 7)
        assert (places.first_won.low or 1) < 5 / 7 < (places.first_won.high or 0)

    def test_one_order_has_no_word_on_places(self, tmp_path: Path) -> None:
        assert run(written(tmp_path, items_of(4)), tmp_path / "scores.jsonl").places is None

    def test_the_summary_reads_as_sentences(self, tmp_path: Path) -> None:
        items = items_of(12)
        summary = run(written(tmp_path, items), tmp_path / "s.jsonl", Moody({items[0].id}), orders="both")
        told = "\n".join(summary.lines())
        assert "11 of 12 items judged by rule:a" in told and "not judged 1: time (time: no answer)" in told
        assert "depends on the order" in told and "first place won" in told and "mean history" in told
