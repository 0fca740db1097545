"""A run's folder: begun, resumed, refused, and never left in a state that lies about what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from compeer.errors import UserError
from compeer.training.run import Record, Revision, Run, data_file, open_run, revision, versions


def record(data: Path, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "kind": "judge",
        "config": {"learning_rate": 1e-5, "lora": {"r": 16}, "files": ("a", "b"), "out": "somewhere"},
        "data": {"train": [data_file(data)]},
        "base": {"sha256": "abc"},
        "judge": {"weights": "one"},
        "seed": 3,
    }
    return Record(**values | changes)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    return path


def begin(folder: Path, data: Path, **changes: Any) -> Run:
    run = open_run(folder, record(data, **changes), given="seed: 3 # as given\n", free=("out",))
    run.close()
    return run


def checkpoint(run: Run, step: int, mark: bool = True) -> Path:
    folder = run.checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "optimizer.pt").write_bytes(b"moments")
    if mark:
        run.mark(folder)
    return folder


class TestRecord:
    def test_says_what_was_run_on_what(self, tmp_path: Path, data: Path) -> None:
        begin(tmp_path / "run", data)
        noted = msgspec.json.decode((tmp_path / "run" / "run.json").read_bytes())
        assert noted["data"]["train"][0]["rows"] == 2 and len(noted["data"]["train"][0]["sha256"]) == 64
        assert noted["base"] == {"sha256": "abc"} and noted["judge"] == {"weights": "one"} and noted["seed"] == 3
        (session,) = noted["sessions"]
        assert session["versions"] == versions() and {"torch", "trl", "transformers", "peft"} <= set(versions())
        assert msgspec.convert(session["revision"], Revision) == revision()
        assert (tmp_path / "run" / "config.given.yaml").read_text() == "seed: 3 # as given\n"
        assert "learning_rate: 1.0e-05" in (tmp_path / "run" / "config.yaml").read_text()

    def test_a_copy_without_its_history_says_what_it_was_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("compeer.training.run._git", lambda *_: None)
        monkeypatch.setenv("COMPEER_REVISION", "6c36bd7")
        assert str(revision()).endswith(" at 6c36bd7")
        monkeypatch.delenv("COMPEER_REVISION")
        assert revision().commit is None

    def test_a_commit_is_named_only_where_the_package_is_tracked(self) -> None:
        found = revision()
        assert (found.commit is None) or len(found.commit) == 40
        assert str(Revision("1.0", "f" * 40, True)) == "compeer 1.0 at ffffffffffff with changes"
        assert str(Revision("1.0")) == "compeer 1.0"


class TestResuming:
    def test_goes_on_from_the_last_whole_checkpoint(self, tmp_path: Path, data: Path) -> None:
        run = begin(tmp_path / "run", data)
        assert run.resume_from is None
        checkpoint(run, 2)
        whole = checkpoint(run, 10)
        broken = checkpoint(run, 12, mark=False)
        again = begin(tmp_path / "run", data)
        assert again.resume_from == str(whole)
        assert not broken.exists(), "what a kill left behind is gone"
        assert [session.resumed_from for session in again.record.sessions] == [None, str(whole)]

    def test_a_checkpoint_with_a_file_cut_short_does_not_count(self, tmp_path: Path, data: Path) -> None:
        run = begin(tmp_path / "run", data)
        good, cut = checkpoint(run, 1), checkpoint(run, 2)
        (cut / "optimizer.pt").write_bytes(b"mom")
        assert begin(tmp_path / "run", data).resume_from == str(good)

    def test_what_was_logged_after_the_checkpoint_is_logged_again_only_once(self, tmp_path: Path, data: Path) -> None:
        run = begin(tmp_path / "run", data)
        for step in (1, 2, 3):
            run.log({"step": step, "loss": 1 / step})
            run.sample({"step": step, "text": "…"})
            if step == 2:
                checkpoint(run, 2)
        with run.metrics_path.open("ab") as file:
            file.write(b'{"step": 4, "lo')
        again = begin(tmp_path / "run", data)
        assert [line["step"] for line in again.metrics()] == [1, 2]
        assert again.samples_path.read_text().count("\n") == 2

    def test_without_a_checkpoint_it_starts_over(self, tmp_path: Path, data: Path) -> None:
        run = begin(tmp_path / "run", data)
        run.log({"step": 1, "loss": 1.0})
        assert begin(tmp_path / "run", data).metrics() == []

    def test_numbers_of_numpy_are_logged_as_numbers(self, tmp_path: Path, data: Path) -> None:
        import numpy as np

        run = begin(tmp_path / "run", data)
        run.log({"step": 1, "loss": np.float32(0.5)})
        assert run.metrics() == [{"step": 1, "loss": 0.5}]

    def test_a_finished_run_stays_finished(self, tmp_path: Path, data: Path) -> None:
        begin(tmp_path / "run", data).finish({"eval_loss": 0.25})
        again = begin(tmp_path / "run", data)
        assert again.finished and again.record.results == {"eval_loss": 0.25} and len(again.record.sessions) == 1

    def test_what_may_differ_may_differ(self, tmp_path: Path, data: Path) -> None:
        begin(tmp_path / "run", data)
        config = record(data).config | {"out": "elsewhere"}
        assert len(begin(tmp_path / "run", data, config=config).record.sessions) == 2


class TestRefusing:
    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"config": {"learning_rate": 2e-5, "lora": {"r": 16}, "files": ["a", "b"]}}, "learning_rate was 1e-05, is 2e-05"),
            ({"config": {"learning_rate": 1e-5, "lora": {"r": 8}, "files": ["a", "b"]}}, "lora.r was 16, is 8"),
            ({"base": {"sha256": "abd"}}, "the base model's sha256 was abc, is abd"),
            ({"judge": {"weights": "two"}}, "the judge's weights was one, is two"),
            ({"judge": None}, "the judge's weights was one, is not set"),
            ({"kind": "policy"}, "it trains a judge, not a policy"),
        ],
    )  # fmt: skip
    def test_another_run_is_refused_by_name(
        self, tmp_path: Path, data: Path, changes: dict[str, Any], named: str
    ) -> None:
        begin(tmp_path / "run", data)
        with pytest.raises(UserError, match="holds another run") as refused:
            begin(tmp_path / "run", data, **changes)
        assert named in str(refused.value) and "--force" in str(refused.value)

    def test_other_data_is_refused_even_under_the_same_name(self, tmp_path: Path, data: Path) -> None:
        begin(tmp_path / "run", data)
        data.write_text('{"id": 1}\n')
        with pytest.raises(UserError, match=r"the train data was .*2 rows.*, is .*1 rows"):
            begin(tmp_path / "run", data)

    def test_the_same_data_may_have_moved(self, tmp_path: Path, data: Path) -> None:
        begin(tmp_path / "run", data)
        assert begin(tmp_path / "run", data.rename(tmp_path / "moved.jsonl")).record.sessions[1].differences == ()

    def test_forced_it_goes_on_and_notes_what_differed(self, tmp_path: Path, data: Path) -> None:
        whole = checkpoint(begin(tmp_path / "run", data), 5)
        run = open_run(tmp_path / "run", record(data, judge={"weights": "two"}), force=True)
        run.close()
        assert run.resume_from == str(whole) and run.record.judge == {"weights": "two"}
        assert run.record.sessions[1].differences == ("the judge's weights was one, is two",)

    def test_fresh_begins_anew_and_takes_only_what_is_its_own(self, tmp_path: Path, data: Path) -> None:
        checkpoint(begin(tmp_path / "run", data), 5)
        (tmp_path / "run" / "notes.txt").write_text("mine")
        run = open_run(tmp_path / "run", record(data, kind="policy"), fresh=True)
        run.close()
        assert run.resume_from is None and not run.whole_checkpoints() and run.record.kind == "policy"
        assert len(run.record.sessions) == 1 and (tmp_path / "run" / "notes.txt").read_text() == "mine"

    def test_a_folder_with_something_else_in_it_is_left_alone(self, tmp_path: Path, data: Path) -> None:
        folder = tmp_path / "home"
        folder.mkdir()
        (folder / "README.md").write_text("mine")
        for fresh in (False, True):
            with pytest.raises(UserError, match="is not empty and holds no run"):
                open_run(folder, record(data), fresh=fresh)
        assert (folder / "README.md").read_text() == "mine"

    def test_two_at_once_are_refused(self, tmp_path: Path, data: Path) -> None:
        run = open_run(tmp_path / "run", record(data))
        with pytest.raises(UserError, match="Another process is training"):
            open_run(tmp_path / "run", record(data))
        run.close()
        open_run(tmp_path / "run", record(data)).close()

    def test_a_damaged_record_is_said_to_be(self, tmp_path: Path, data: Path) -> None:
        begin(tmp_path / "run", data)
        (tmp_path / "run" / "run.json").write_text("{")
        with pytest.raises(UserError, match=r"run\.json is damaged"):
            begin(tmp_path / "run", data)


class TestKeeping:
    def test_the_last_ones_and_the_best_stay(self, tmp_path: Path, data: Path) -> None:
        run = begin(tmp_path / "run", data)
        for step in (2, 4, 6, 8, 10):
            checkpoint(run, step)
        run.prune(2, best="checkpoint-4")
        assert [path.name for path in run.whole_checkpoints()] == ["checkpoint-4", "checkpoint-8", "checkpoint-10"]

    def test_one_that_is_not_whole_is_never_counted_among_those_kept(self, tmp_path: Path, data: Path) -> None:
        run = begin(tmp_path / "run", data)
        kept = checkpoint(run, 2)
        checkpoint(run, 4, mark=False)
        run.prune(1)
        assert run.whole_checkpoints() == [kept]

    def test_processes_other_than_the_first_write_nothing(
        self, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = begin(tmp_path / "run", data)
        folder = checkpoint(run, 2, mark=False)
        monkeypatch.setenv("RANK", "1")
        run.log({"step": 1})
        run.mark(folder)
        run.prune(1)
        run.finish({})
        assert not run.metrics_path.exists() and not run.whole_checkpoints()
        assert msgspec.json.decode((tmp_path / "run" / "run.json").read_bytes(), type=Record).finished is None
