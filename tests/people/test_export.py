"""Out of the store and back in: CER items, Label Studio, Potato; agreement and audit on a story known by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
import yaml
from sqlalchemy import select
from tests.people.labelling import ALL_TRUE, Clock, answers, item, label_all, start

from compeer.cer.item import QUESTIONS, Item, Labels
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.people.exchange import Imported, import_votes, labelled, votes_of_items
from compeer.people.invitations import invite
from compeer.people.labelling import AssignedItem, LabellingQueue, as_shown, create_project
from compeer.people.labelling_results import (
    agreement,
    confusion,
    disagreements,
    labelling_progress,
    pair_agreement,
    question_agreement,
)
from compeer.people.other_tools import read_label_studio, read_potato, write_label_studio, write_potato
from compeer.people.projects import Project
from compeer.people.store import Store, open_store
from compeer.people.tables import audit_draws, items
from compeer.reward.judge import Judgement, PairVerdict, StepVerdict

YES: dict[str, Any] = {**ALL_TRUE, "preference": "candidate"}


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = open_store(tmp_path / "annotation.db", clock=clock)
    yield opened
    opened.close()


def number(work: AssignedItem) -> int:
    return int(work.task.history[0].text.removesuffix(".").rsplit(" ", 1)[1])


@pytest.fixture
def labelled_project(store: Store) -> Project:
    """Five items: agreed; one step disputed; a three-way preference; agreed but for a changed mind; not finished."""
    project, (anna, ben, cleo) = start(store, 5, seed=11)
    hers = {1: {"emotion": False}, 2: {"preference": "reference"}}
    his = {2: {"preference": "both"}, 3: {"history": False}}
    thirds = {2: {"preference": "neither"}}
    label_all(store, anna, lambda work: YES | hers.get(number(work), {}), most=5)
    for work in label_all(store, ben, lambda work: YES | his.get(number(work), {}), most=4):
        if number(work) == 3:
            LabellingQueue(store).submit(ben, work.item, answers(work, YES), note="I had misread it", seconds=1.0)
    skipped = LabellingQueue(store).next(ben)
    assert skipped is not None and number(skipped) == 4
    LabellingQueue(store).skip(ben, skipped.item, "about my own family", distress=True)
    label_all(store, cleo, lambda work: YES | thirds.get(number(work), {}), most=2)
    return project


def test_the_export_has_label_status_and_votes_for_every_question(store: Store, labelled_project: Project) -> None:
    done = {one.id: one for one in labelled(store, labelled_project.id)}
    assert list(done) == ["d0#1", "d1#1", "d2#1", "d3#1"]  # the fifth is open
    agreed = dict.fromkeys(QUESTIONS, "agreed")
    assert [one.trace["consensus"] for one in done.values()] == [
        agreed, agreed | {"emotion": "adjudicated"}, agreed | {"preference": "dropped"}, agreed,
    ]  # fmt: skip
    all_yes = Labels(history=True, emotion=True, strategy=True, preference="candidate")
    assert done["d0#1"].labels == done["d1#1"].labels == done["d3#1"].labels == all_yes
    assert done["d2#1"].labels == msgspec.structs.replace(all_yes, preference=None)
    assert {one.label_source for one in done.values()} == {"human"}
    assert [(v.annotator, v.value) for v in done["d2#1"].votes if v.question == "preference"] == [
        ("anna", "reference"), ("ben", "both"), ("cleo", "neither"),
    ]  # fmt: skip
    assert len(done["d2#1"].votes) == 9  # the third voted on the one question only
    vote = done["d0#1"].votes[0]
    assert vote.seconds == 1.0 and vote.guideline == "1" and vote.at == "2027-01-15T08:00:00.000+00:00"
    changed = done["d3#1"].trace["annotation"]
    assert [(v["annotator"], v["question"], v["value"]) for v in changed["superseded"]][:1] == [
        ("ben", "history", False)
    ]
    assert len(changed["superseded"]) == 4 and changed["notes"] == {"ben": "I had misread it"}


def test_open_items_keep_what_they_had_and_names_can_be_left_out(store: Store, labelled_project: Project) -> None:
    everything = list(labelled(store, labelled_project.id, everything=True, anonymous=True))
    still_open = everything[4]
    assert still_open.label_source is None and still_open.labels == Labels()
    assert set(still_open.trace["consensus"].values()) == {"open"}
    assert still_open.trace["annotation"]["skips"][0] | {"at": ""} == {
        "annotator": "annotator-2", "at": "", "reason": "about my own family", "distress": True,
    }  # fmt: skip
    text = msgspec.json.encode(everything).decode()
    assert "anna" not in text and '"ben"' not in text and "cleo" not in text


def test_an_item_without_any_consensus_has_no_label(store: Store) -> None:
    made = create_project(
        store, "pairs", [item(1, thinks=False, labels=Labels(preference="both"), label_source="silver")]
    )
    people = [invite(store, made.project.id, name).person for name in ("anna", "ben", "cleo")]
    for person, thinks in zip(people, ("candidate", "reference", "both"), strict=True):
        label_all(store, person, lambda _, thinks=thinks: {"preference": thinks})  # type: ignore[misc]
    (done,) = labelled(store, made.project.id)
    assert (
        done.labels == Labels() and done.label_source is None and done.trace["consensus"] == {"preference": "dropped"}
    )


def test_agreement_counts_first_votes_only_and_names_who_differs(store: Store, labelled_project: Project) -> None:
    found = agreement(store, labelled_project.id)
    emotion, preference = found.questions["emotion"], found.questions["preference"]
    assert emotion.units == preference.units == 4 and emotion.percent == preference.percent == 0.75
    assert emotion.values == {"true": 7, "false": 1}  # cleo's third vote is not among them
    assert found.labels["emotion"] == {"true": 4, "false": 0}
    assert found.labels["preference"] == {"candidate": 3, "reference": 0, "both": 0, "neither": 0}
    pair = next(one for one in pair_agreement(store, labelled_project.id) if one.question == "preference")
    assert pair.people == ("anna", "ben") and pair.items == 4
    assert pair.table[pair.values.index("reference")][pair.values.index("both")] == 1
    assert [one.number for one in disagreements(store, labelled_project.id)] == [2, 3]
    (third,) = [one for one in disagreements(store, labelled_project.id) if one.item.id == "d2#1"]
    assert [(vote.vote.annotator, vote.turn, vote.answer) for vote in third.disputed["preference"]] == [
        ("anna", "first", "reference"), ("ben", "first", "both"), ("cleo", "third", "neither"),
    ]  # fmt: skip


def test_a_disagreement_is_counted_once(store: Store, labelled_project: Project) -> None:
    pairs = pair_agreement(store, labelled_project.id, "preference")
    table = confusion(pairs, "preference")
    places = {value: n for n, value in enumerate(pairs[0].values)}
    assert table[places["candidate"]][places["candidate"]] == 3
    assert {table[places["reference"]][places["both"]], table[places["both"]][places["reference"]]} == {1, None}
    assert sum(count or 0 for row in table for count in row) == pairs[0].items == 4


def test_agreement_that_cannot_be_measured_is_nan_and_not_perfect() -> None:
    nothing = question_agreement({}, (True, False))
    assert nothing.units == 0 and math.isnan(nothing.percent) and math.isnan(nothing.alpha) and math.isnan(nothing.ac1)
    always = question_agreement({(True, True): 9}, (True, False))
    assert always.percent == 1.0 and math.isnan(always.kappa) and math.isnan(always.alpha)
    assert always.ac1 == 1.0 and always.values == {"true": 18, "false": 0}


def fresh_copy(store: Store) -> int:
    return create_project(store, "copy", [item(n) for n in range(5)], seed=5, audit_share=0).project.id


def bare(one: Item) -> Any:
    """What must survive a journey: labels, status, and who said what; not when, and not in which order it was shown."""
    said = sorted((vote.annotator, vote.question, str(vote.value)) for vote in one.votes)
    return one.id, one.labels, one.label_source, one.trace["consensus"], said


def test_cer_items_come_back_as_they_went(store: Store, labelled_project: Project, tmp_path: Path) -> None:
    before = list(labelled(store, labelled_project.id, everything=True))
    write_rows(tmp_path / "out.jsonl", before)
    copy = fresh_copy(store)
    votes = votes_of_items(read_rows(tmp_path / "out.jsonl", Item))
    assert import_votes(store, copy, votes) == Imported(items=5, votes=38, people=3, left_out={})
    after = list(labelled(store, copy, everything=True))
    assert [one.votes for one in after] == [one.votes for one in before]  # to the second, and the order shown
    assert [bare(one) for one in after] == [bare(one) for one in before]
    assert import_votes(store, copy, votes).left_out == {"already there": 11}  # twice changes nothing
    assert [one.votes for one in labelled(store, copy, everything=True)] == [one.votes for one in before]


def as_in_label_studio(said: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"completed_by": {"email": name}, "lead_time": 1.0, "result": [
            {"from_name": question, "value": {"choices": [str(answer).lower()]}} for question, answer in given.items()
        ]}
        for name, given in said.items()
    ]  # fmt: skip


def as_in_potato(said: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One person's answers by task."""
    words = {True: "right", False: "wrong"}
    labels = {
        task: [[{"schema": question, "name": words.get(answer, answer)}, "x"] for question, answer in given.items()]
        for task, given in said.items()
    }
    times = {task: {"total_time_ms": 1000} for task in said}
    return {"instance_id_to_label_to_value": labels, "instance_id_to_behavioral_data": times}


@pytest.mark.parametrize("tool", ["label_studio", "potato"])
def test_tasks_and_answers_travel_through_other_tools(
    store: Store, labelled_project: Project, tmp_path: Path, tool: str
) -> None:
    before, seed, folder = list(labelled(store, labelled_project.id, everything=True)), 77, tmp_path / tool
    write_label_studio(tmp_path / "label_studio", before, seed)
    tasks = json.loads((tmp_path / "label_studio" / "tasks.json").read_text())
    by_task: dict[str, dict[str, dict[str, Any]]] = {}  # by task, person and question, as shown
    for one, task in zip(before, tasks, strict=True):
        said = by_task.setdefault(task["data"]["task"], {})
        for vote in one.votes:
            answer = as_shown(vote.value, task["data"]["first"].startswith("CAND"))
            said.setdefault(vote.annotator, {})[vote.question] = answer
    assert not any(name in json.dumps(tasks) for name in ("anna", "ben", "cleo"))  # nobody sees what others said
    names = [one.id for one in before]
    if tool == "label_studio":
        for task in tasks:
            task["annotations"] = as_in_label_studio(by_task[task["data"]["task"]])
        (folder / "tasks.json").write_text(json.dumps(tasks))
        votes = read_label_studio(folder, names, seed)
    else:
        assert write_potato(folder, before, seed, title="trial") == 5
        for name in ("anna", "ben", "cleo"):
            state = as_in_potato({task: said[name] for task, said in by_task.items() if name in said})
            (folder / "annotation_output" / name).mkdir(parents=True)
            (folder / "annotation_output" / name / "user_state.json").write_text(json.dumps(state))
        votes = read_potato(folder, names, seed)
    assert {vote.seconds for cast in votes.values() for vote in cast} == {1.0}
    copy = fresh_copy(store)
    import_votes(store, copy, votes)
    after = list(labelled(store, copy, everything=True))
    assert [bare(one) for one in after] == [bare(one) for one in before]


def test_label_studio_gets_blind_tasks_and_a_configuration_that_fits(tmp_path: Path) -> None:
    given = [item(n) for n in range(40)]
    write_label_studio(tmp_path, given, seed=1)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert {task["data"]["first"].split()[0] for task in tasks} == {"CAND", "REF"}
    assert not any(word in json.dumps(tasks) for word in ("d0#1", "secret", "candidate_first"))
    tree = ElementTree.parse(tmp_path / "config.xml")
    names = {tag.get("name") for tag in tree.iter() if tag.get("name")}
    assert all(tag.get("toName") in names for tag in tree.iter("Choices"))
    fields = {tag.get("value", "")[1:] for tag in tree.iter() if tag.get("value", "").startswith("$")}
    assert fields <= set(tasks[0]["data"])


def test_answers_as_label_studio_writes_them(tmp_path: Path) -> None:
    """Numbers for people, the choice's text instead of its alias, cancelled annotations, tasks of other projects."""
    write_label_studio(tmp_path, [item(0)], seed=1)
    (task,) = json.loads((tmp_path / "tasks.json").read_text())
    first = "candidate" if task["data"]["first"].startswith("CAND") else "reference"

    def result(name: str, choice: str) -> dict[str, Any]:
        return {
            "from_name": name,
            "to_name": "x",
            "type": "choices",
            "value": {"choices": [choice]},
            "origin": "manual",
        }

    task |= {"id": 7, "annotations": [
        {"completed_by": 3, "lead_time": 4.288, "created_at": "2021-03-09T22:16:08.728353Z", "was_cancelled": False,
         "result": [result("history", "True"), result("preference", "The first reply is better"), result("tag", "x")]},
        {"completed_by": {"id": 4, "email": "ben@example.org"}, "was_cancelled": True, "result": [result("history", "true")]},
    ]}  # fmt: skip
    other = {"data": {"text": "another project"}, "annotations": []}
    (tmp_path / "export.json").write_text(json.dumps([other, task]))
    (votes,) = read_label_studio(tmp_path / "export.json", ["d0#1"], 1).values()
    assert [(v.annotator, v.question, v.value, v.seconds) for v in votes] == [
        ("label-studio-3", "history", True, 4.288), ("label-studio-3", "preference", first, 4.288),
    ]  # fmt: skip
    with pytest.raises(UserError, match="No annotation"):
        read_label_studio(tmp_path / "export.json", ["d0#1"], 2)  # another seed: another project
    (tmp_path / "export.json").write_text("not json")
    with pytest.raises(UserError, match="no JSON export"):
        read_label_studio(tmp_path / "export.json", ["d0#1"], 1)


def test_a_potato_project_shows_text_as_text_and_older_answers_are_read(tmp_path: Path) -> None:
    nasty = item(0, reference="REF <script>alert(1)</script>")
    write_potato(tmp_path, [nasty], seed=1, title="trial")
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert [scheme["name"] for scheme in config["annotation_schemes"]] == list(QUESTIONS)
    (row,) = read_rows(tmp_path / config["data_files"][0], dict)
    assert "<script>" not in row["text"] and "&lt;script&gt;" in row["text"]
    folder = tmp_path / "annotation_output" / "anna"
    folder.mkdir(parents=True)
    said = {
        "history": {"wrong": "1"},
        "emotion": {"right": "true"},
        "preference": {"both": "3"},
        "strategy": {"right": ""},
    }
    (folder / "annotated_instances.jsonl").write_text(json.dumps({"id": row["id"], "label_annotations": said}) + "\n")
    (votes,) = read_potato(tmp_path, ["d0#1"], 1).values()
    assert {(v.annotator, v.question, v.value) for v in votes} == {
        ("anna", "history", False), ("anna", "emotion", True), ("anna", "preference", "both"),
    }  # fmt: skip


def test_what_does_not_fit_the_protocol_is_left_out_and_counted(store: Store, labelled_project: Project) -> None:
    votes = {one.id: list(one.votes) for one in labelled(store, labelled_project.id)}
    copy = fresh_copy(store)
    incomplete = [vote for vote in votes["d0#1"] if vote.question != "emotion"]
    crowded = votes["d0#1"] + [msgspec.structs.replace(vote, annotator="dora") for vote in votes["d0#1"][:4]]
    told = import_votes(store, copy, {"d1#1": incomplete, "d0#1": crowded, "nowhere": votes["d1#1"]})
    assert told.left_out == {"incomplete": 2, "no place": 1, "unknown item": 1} and told.items == 1
    authors = msgspec.structs.replace(item(3), votes=tuple(votes["d0#1"]), label_source="author")
    assert votes_of_items([authors]) == {}


def test_the_audit_goes_to_newcomers_and_stands_beside_a_judge(store: Store) -> None:
    project, (anna, ben, cleo, dora) = start(store, 60, "anna ben cleo dora", audit_share=0.25, seed=4)
    label_all(store, anna, lambda _: YES)
    label_all(store, ben, lambda work: YES | ({"preference": "both"} if number(work) == 0 else {}))
    with store.read() as db:
        drawn = set(db.execute(select(audit_draws.c.item)).scalars())
        names = {row.id: row.name for row in db.execute(select(items.c.id, items.c.name))}
    assert 7 <= len(drawn) <= 24
    seen = label_all(store, cleo, lambda work: YES | {"history": number(work) % 2 == 0})
    audited = {work.item for work in seen if work.task.questions == QUESTIONS}
    assert audited == drawn or audited | {1} == drawn  # the disputed first item is hers to decide, not to audit
    assert LabellingQueue(store).next(anna) is None and LabellingQueue(store).next(ben) is None
    label_all(store, dora, lambda _: YES)
    right = StepVerdict(value=True)
    judged = {
        name: Judgement(id=name, complete=True, steps=(right, right, StepVerdict(value=False)),
                        pairs=(PairVerdict(candidate_first=True, preference="candidate"),))
        for name in names.values()
    }  # fmt: skip
    found = agreement(store, project.id, judged).audit
    odd = sum((key - 1) % 2 for key in audited)
    assert (found["history"].audited, found["history"].confirmed) == (len(drawn), len(drawn) - odd)
    assert (found["history"].judge_agrees, found["history"].judged) == (len(drawn), len(drawn))
    assert (found["strategy"].judge_agrees_all, found["strategy"].judged_all) == (0, 60)
    assert agreement(store, project.id).audit["history"].judged is None
    now = labelling_progress(store, project.id)
    assert (now.audited, now.audit_drawn) == (len(drawn), len(drawn))
    assert {item.labels.history for item in labelled(store, project.id)} == {True}  # an audit changes no label
