"""Items in every form they were ever written in, for every command and page that takes items."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import msgspec
import pytest
from PIL import Image
from tests.people.labelling import ALL_TRUE, LABELS, label_all

from compeer.cer.item import Candidate, Item, Labels, PastTurn, read_items, to_row
from compeer.cer.publish import publish
from compeer.cli import app
from compeer.dialogue import read_rows, write_rows
from compeer.dialogue.jsonl import data_files, open_bytes
from compeer.errors import UserError
from compeer.reasoning import Reasoning

if TYPE_CHECKING:
    from tests.reward.rule_judge import RuleJudge

STEPS = {"history": "They lost their job.", "emotion": "They feel small.", "strategy": "Ask first."}
COUNT = 10


def item(number: int) -> Item:
    """Labelled by authors; the first has a picture beside its file."""
    images = ("pictures/window.png",) if number == 0 else ()
    return Item(
        id=f"d{number}#1",
        dialogue=f"d{number}",
        source="test",
        licence="CC BY 4.0",
        language="en",
        round=1,
        history=(PastTurn("seeker", f"I lost my job, and this is story number {number}.", images),),
        reference=f"That must be hard, {number}.",
        reference_reasoning=Reasoning.of(STEPS, LABELS),
        candidate=Candidate(
            response=f"What happened, {number}?", reasoning=Reasoning.of(STEPS, LABELS), generator="model"
        ),
        labels=Labels(history=True, emotion=number % 3 > 0, strategy=True, preference="both"),
        label_source="author",
        trace={"made": {"by": "hand"}},
    )


def command(*words: object) -> None:
    """A command in this process, for speed."""
    app([str(word) for word in words], standalone_mode=False)


def labelled(home: Path, source: Path, name: str, *export: str) -> Path:
    """Items that two people have labelled, out of the store again."""
    from compeer.people.invitations import invite
    from compeer.people.projects import project_by_name
    from compeer.people.store import open_store

    db, out = home / f"{name}.db", home / f"{name}.jsonl"
    command("annotate", "create", source, "--db", db, "--audit", 0)
    store = open_store(str(db))
    project = project_by_name(store, "labelling", None).id
    for person in ("anna", "ben"):
        invited = invite(store, project, person).person
        label_all(store, invited, lambda work: {**ALL_TRUE, "preference": "both"})
    store.close()
    command("annotate", "export", "--out", out, "--db", db, *export)
    return out


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same ten items in every form."""
    home = tmp_path_factory.mktemp("forms")
    (home / "pictures").mkdir()
    Image.new("RGB", (32, 32)).save(home / "pictures" / "window.png")
    items = [item(number) for number in range(COUNT)]
    plain = home / "items.jsonl"
    write_rows(plain, items)
    found = {"item file": plain}
    for suffix in (".gz", ".bz2", ".xz", ".zst"):
        found[suffix] = home / f"packed.jsonl{suffix}"
        write_rows(found[suffix], items)
    train = [msgspec.structs.replace(one, split="train") for one in items]
    publish(train, home / "cer", image_root=home)
    found |= {"published folder": home / "cer", "published rows": home / "cer" / "jsonl" / "train.jsonl"}
    publish(train, home / "built" / "dataset", image_root=home)
    found["folder of a build"] = home / "built"
    found["exported"] = labelled(home, plain, "named")
    found["exported, anonymous"] = labelled(home, plain, "anonymous", "--anonymous")
    again, out = home / "again.db", home / "again.jsonl"
    command("annotate", "create", plain, "--db", again)
    command("annotate", "import", found["exported"], "--db", again)
    command("annotate", "export", "--out", out, "--all", "--db", again)
    found["imported again"] = out
    # beside the pictures of the published dataset, as its readers find them
    found["published, then labelled"] = labelled(home / "cer", found["published rows"], "labelled")
    voted = [msgspec.structs.replace(one, split="train") for one in read_items(found["exported"])]
    publish(voted, home / "voted", image_root=home)
    found["labelled, then published"] = home / "voted" / "jsonl" / "train.jsonl"
    return found


NAMES = (
    "item file", ".gz", ".bz2", ".xz", ".zst", "published folder", "published rows", "folder of a build", "exported",
    "exported, anonymous", "imported again", "published, then labelled", "labelled, then published",
)  # fmt: skip


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[RuleJudge]:
    """Commands that open a judge get one by rule, which knows what it was shown."""
    from tests.reward.rule_judge import RuleJudge

    made = RuleJudge()
    monkeypatch.setattr("compeer.reward.spec.open_judge", lambda *spec, **options: made)
    yield made


Take = Callable[[Path, Path, Any], int]


def reading(path: Path, out: Path, judge: RuleJudge) -> int:
    items = list(read_items(path))
    (image,) = items[0].history[0].images
    assert Path(image).is_file() and Path(image).is_absolute()
    assert items[0].trace["made"] == {"by": "hand"}
    return len(items)


def reward_score(path: Path, out: Path, judge: RuleJudge) -> int:
    command("reward", "score", path, "--out", out / "scores.jsonl", "--model", "rule")
    return len(list(read_rows(out / "scores.jsonl", dict)))


def reward_eval(path: Path, out: Path, judge: RuleJudge) -> int:
    command("reward", "eval", path, "--model", "rule=hf:x", "--out", out / "report", "--rounds", 10)
    report = json.loads((out / "report" / "report.json").read_text())
    return int(report["sections"][0]["items"])


def reward_attack(path: Path, out: Path, judge: RuleJudge) -> int:
    command("reward", "attack", path, "--model", "rule", "--threshold", 9, "--json")
    return COUNT if len(judge.seen) > COUNT else 0


def reward_timing(path: Path, out: Path, judge: RuleJudge) -> int:
    command("reward", "timing", path, "--model", "rule", "--rounds", 1)
    return len(set(judge.seen))


def reward_consistency(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.pipeline.runner import run_stage
    from compeer.pipeline.stage import Tools
    from compeer.reward.consistency import FOLLOWS

    return _rows_asked(run_stage(FOLLOWS, path, out / "out.jsonl", Tools(models={"judge": Silent()}), give_up_after=0))


def reward_rows(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.reward.train import JudgeTraining, _items

    config = JudgeTraining(out=str(out), base="x", train=(str(path),), pictures="drop")
    return len(list(_items(config.train, config)))


def reward_service(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.reward.service import _case

    lines = [msgspec.Raw(line) for file in data_files(path) for line in _unpacked(file).splitlines()]
    return len([_case(line, "item") for line in lines])


def _unpacked(file: Path) -> bytes:
    with open_bytes(file, "rb") as opened:
        return opened.read()


def policy_sft(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.policy.prompts import demonstration
    from compeer.policy.sft import items_of

    return sum(demonstration(one) is not None for one in items_of([str(path)]))


def policy_prompts(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.policy.prompts import prompts_of
    from compeer.policy.sft import items_of

    return len(prompts_of(items_of([str(path)]), len, 100)[0])


def training_data(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.training.run import data_file

    return data_file(path).rows


def cer_reason(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.cer.reason import STAGE
    from compeer.pipeline.runner import run_stage
    from compeer.pipeline.stage import Tools

    models: Any = {"generator": Silent()}
    return _rows_asked(run_stage(STAGE, path, out / "out.jsonl", Tools(models=models), give_up_after=0))


def cer_rewrite(path: Path, out: Path, judge: RuleJudge) -> int:
    command("cer", "rewrite", path, "--out", out / "new.jsonl", "--preview", 1)
    return len(list(read_rows(out / "new.jsonl.tasks", dict)))


def cer_split(path: Path, out: Path, judge: RuleJudge) -> int:
    command("cer", "split", path, "--out", out / "parted")
    items = list(read_items(out / "parted"))
    (image,) = {image for one in items for turn in one.history for image in turn.images}
    assert Path(image).is_relative_to(out / "parted" / "images")
    return len(items)


def cer_label(path: Path, out: Path, judge: RuleJudge) -> int:
    tasks, keys = out / "tasks.jsonl", out / "tasks.jsonl.keys"
    command("cer", "label", "export", path, "--out", tasks, "--annotator", "cleo")
    answers = [{"task": row["id"], "annotator": "cleo", "history": True} for row in read_rows(tasks, dict)]
    write_rows(out / "answers.jsonl", answers)
    command("cer", "label", "import", path, "--out", out / "labelled.jsonl", "--judgements", out / "answers.jsonl",
            "--keys", keys)  # fmt: skip
    assert all(any(vote.annotator == "cleo" for vote in one.votes) for one in read_items(out / "labelled.jsonl"))
    return len(answers)


def annotate_create(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.people.labelling_results import labelling_progress
    from compeer.people.projects import project_by_name
    from compeer.people.store import open_store

    db = out / "label.db"
    command("annotate", "create", path, "--db", db, "--votes")
    command("annotate", "import", path, "--db", db)
    store = open_store(str(db))
    try:
        return labelling_progress(store, project_by_name(store, "labelling", None).id).items
    finally:
        store.close()


def label_room(path: Path, out: Path, judge: RuleJudge) -> int:
    from starlette.datastructures import UploadFile

    from compeer.studio.rooms.label.routes import ProjectPages
    from compeer.studio.settings import StudioSettings

    source = ProjectPages(MagicMock(settings=StudioSettings())).source
    say: Any = lambda name, **values: name  # noqa: E731
    items, images = source(say, None, str(path), "")
    assert images is not None and (images / items[0].history[0].images[0]).is_file()
    if not path.is_dir():
        upload: Any = UploadFile(io.BytesIO(path.read_bytes()), filename=path.name)
        assert source(say, upload, "", str(out))[0] == items
    return len(items)


def eval_diversity(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.evals.language.outputs import read_outputs

    return len(read_outputs(path).outputs)


def arena_cases(path: Path, out: Path, judge: RuleJudge) -> int:
    from compeer.people.arena_cases import read_cases

    return len(read_cases(path))


class Silent:
    """A model that never answers: a row that was read ends as one without an answer."""

    name, sees = "silent", True

    async def ask(self, request: Any) -> Any:
        from compeer.models.request import ModelError

        await asyncio.sleep(0)
        raise ModelError("silent")

    def rendered(self, request: Any) -> bytes:
        return msgspec.json.encode(request)

    async def close(self) -> None:
        pass


def _rows_asked(manifest: Any) -> int:
    return int(manifest.counts.rejected["no-answer"])


CONSUMERS: tuple[Take, ...] = (
    reading, reward_score, reward_eval, reward_attack, reward_timing, reward_consistency, reward_rows, reward_service,
    policy_sft, policy_prompts, training_data, cer_reason, cer_rewrite, cer_split, cer_label, annotate_create,
    label_room, eval_diversity, arena_cases,
)  # fmt: skip


@pytest.mark.parametrize("take", CONSUMERS, ids=lambda take: take.__name__)
@pytest.mark.parametrize("form", NAMES)
def test_every_form_is_accepted_everywhere(
    form: str, take: Take, forms: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    judge = request.getfixturevalue("judge") if take.__name__.startswith("reward") else None
    assert take(forms[form], tmp_path, judge) == COUNT


def test_the_forms_are_all_tried(forms: dict[str, Path]) -> None:
    assert tuple(forms) == NAMES


def test_a_published_form_is_the_same_item(forms: dict[str, Path]) -> None:
    plain = list(read_items(forms["item file"], resolve_images=False))
    packed = [list(read_items(forms[suffix], resolve_images=False)) for suffix in (".gz", ".bz2", ".xz", ".zst")]
    assert packed == [plain] * 4
    given = [msgspec.structs.replace(one, split=None) for one in read_items(forms["published folder"])]
    assert given[1:] == plain[1:]
    votes = [one.votes for one in read_items(forms["exported"])]
    assert votes == [one.votes for one in read_items(forms["labelled, then published"])]
    assert all(votes) and {vote.value for vote in votes[0]} == {True, "both"}


def test_one_split_of_a_folder(tmp_path: Path) -> None:
    splits = ("train", "valid", "test")
    publish([msgspec.structs.replace(item(n + 1), split=splits[n % 3]) for n in range(9)], tmp_path / "cer")
    assert [one.split for one in read_items(tmp_path / "cer")] == ["train"] * 3 + ["valid"] * 3 + ["test"] * 3
    assert {one.split for one in read_items(tmp_path / "cer", split="valid")} == {"valid"}
    file = tmp_path / "cer" / "jsonl" / "test.jsonl"
    assert {one.split for one in read_items(file, split="train")} == {"test"}, "a file says itself what is in it"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"id": "x", "round": "two"}, r"items\.jsonl, line 2 \(record x\): .*must be a CER item"),
        ({"id": "d", "utterances": []}, "line 2 .*This is a dialogue, not a CER item.*cer sample"),
        ({"id": "d", "judgement": {}, "total": 3}, "line 2 .*This is a score.*items that"),
        ({"id": "d", "reason": "schema", "row": {}}, "line 2 .*a rejected row"),
        ({"id": "t", "questions": [], "first": "a"}, "line 2 .*task for an annotator"),
        ([1, 2], "line 2.*must be a CER item"),
        ({**to_row(item(1)), "trace": "{"}, "line 2 "),
        ({**to_row(item(1)), "votes": [{"annotator": "a", "question": "history", "value": "perhaps"}]}, "line 2 .*value"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_file_line_and_remedy(row: Any, told: str, tmp_path: Path) -> None:
    write_rows(tmp_path / "items.jsonl", [item(1), row])
    with pytest.raises(UserError, match=told):
        list(read_items(tmp_path / "items.jsonl"))


def test_places_that_hold_no_items(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        list(read_items(tmp_path / "none.jsonl"))
    with pytest.raises(UserError, match=r"a folder without jsonl/train\.jsonl"):
        list(read_items(tmp_path))
    publish([msgspec.structs.replace(item(1), split="train")], tmp_path / "cer")
    with pytest.raises(UserError, match=r"Parquet.*jsonl/train\.jsonl"):
        list(read_items(tmp_path / "cer" / "data" / "train.parquet"))
    with pytest.raises(UserError, match=r"without jsonl/test\.jsonl"):
        list(read_items(tmp_path / "cer", split="test"))
