"""Out to annotators and back: blind tasks, the key, 2 + 1 consensus, what happens to silver labels."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from compeer.cer.exchange import Consensus, LabelTask, TaskAnswer, TaskKey, consensus, export, merge, votes_of
from compeer.cer.item import Candidate, Item, Labels, PastTurn, Vote
from compeer.errors import UserError
from compeer.pipeline.stage import Reject
from compeer.reasoning import Reasoning


def item(number: int = 1, *, thinks: bool = True) -> Item:
    labels: dict[str, str | int] = {
        "stage": "exploration", "sentiment": "negative", "emotion": "shame", "intensity": 4, "strategy": "question",
    }  # fmt: skip
    reasoning = (
        Reasoning.of({"history": "Let go.", "emotion": "Small.", "strategy": "Ask."}, labels) if thinks else None
    )
    return Item(
        id=f"d{number}#1",
        dialogue=f"d{number}",
        source="test",
        licence="MIT",
        language="en",
        round=1,
        history=(PastTurn("seeker", "I lost my job."),),
        reference="REF says hello.",
        candidate=Candidate(response="CAND says hello.", reasoning=reasoning, generator="secret-model"),
        labels=Labels(history=False, preference="reference"),
        label_source="silver",
        votes=(),
    )


@pytest.mark.parametrize(
    ("votes", "value", "status"),
    [
        ([], None, "open"),
        ([True], None, "open"),
        ([False, False], False, "agreed"),
        ([True, False], None, "open"),  # a third person is to be asked
        ([True, False, False], False, "adjudicated"),
        (["both", "candidate", "candidate"], "candidate", "adjudicated"),
        (["both", "candidate", "neither"], None, "dropped"),
        (["both", "both", "neither"], "both", "agreed"),  # a third vote changes nothing that was agreed
        (["both", "candidate", "neither", "both"], None, "dropped"),  # the protocol knows no fourth
    ],
)
def test_consensus(votes: list[Any], value: Any, status: str) -> None:
    assert consensus(votes) == Consensus(value, status)  # type: ignore[arg-type]


def test_tasks_are_blind_and_the_order_is_drawn() -> None:
    items = [item(n) for n in range(400)]
    pairs = list(export(items, "anna", seed=1))
    firsts = sum(key.candidate_first for _, key in pairs)
    assert 160 < firsts < 240
    for task, key in pairs:
        shown = msgspec.json.encode(task).decode()
        assert not any(word in shown for word in ("secret-model", "silver", "label", "d1#", "candidate", "reference"))
        assert (task.first == "CAND says hello.") is key.candidate_first
        assert {task.first, task.second} == {"CAND says hello.", "REF says hello."}
    assert pairs[0][0].reasoning == {
        "history": "Let go.\nStage: exploration",
        "emotion": "Small.\nSentiment: negative\nEmotion: shame\nIntensity: 4",
        "strategy": "Ask.\nStrategy: question",
    }
    assert list(export(items, "anna", seed=1)) == pairs
    other = list(export(items, "bert", seed=1))
    assert {task.id for task, _ in pairs}.isdisjoint(task.id for task, _ in other)
    assert sum(a.candidate_first != b.candidate_first for (_, a), (_, b) in zip(pairs, other, strict=True)) > 100


def test_without_reasoning_only_the_preference_is_asked() -> None:
    ((task, _),) = export([item(thinks=False)], "anna")
    assert task.reasoning is None and task.questions == ("preference",)
    assert list(export([msgspec.structs.replace(item(), candidate=None)], "anna")) == []


def answer(task: LabelTask, key: TaskKey, better: str, **steps: bool) -> TaskAnswer:
    """What an annotator answers who finds this reply better, wherever it stands."""
    place = (
        better
        if better in ("both", "neither")
        else "first"
        if (better == "candidate") == key.candidate_first
        else "second"
    )
    return TaskAnswer(task=task.id, annotator=key.annotator, preference=place, **steps)  # type: ignore[arg-type]


def test_round_trip_with_adjudication() -> None:
    items = [item(1), item(2), item(3)]
    sent = {name: list(export(items, name)) for name in ("anna", "bert", "cleo")}
    keys = [key for pairs in sent.values() for _, key in pairs]
    answers = [
        answer(*sent["anna"][0], "candidate", history=True, emotion=True, strategy=False),
        answer(*sent["bert"][0], "candidate", history=True, emotion=False, strategy=False),
        answer(*sent["cleo"][0], "candidate", emotion=False),  # asked again only for what was open
        answer(*sent["anna"][1], "both"),
        answer(*sent["bert"][1], "neither"),
        answer(*sent["cleo"][1], "reference"),
    ]
    one, two, three = merge(items, votes_of(answers, keys))
    assert isinstance(one, Item) and one.label_source == "human"
    assert one.labels == Labels(history=True, emotion=False, strategy=False, preference="candidate")
    assert one.trace["consensus"] == {
        "history": "agreed", "emotion": "adjudicated", "strategy": "agreed", "preference": "agreed",
    }  # fmt: skip
    assert len(one.votes) == 4 + 4 + 2 and {vote.annotator for vote in one.votes} == {"anna", "bert", "cleo"}
    assert isinstance(two, Reject) and two.reason == "no-consensus" and len(two.row.votes) == 3
    assert three == item(3)  # nobody judged it


def test_open_item_keeps_its_silver_labels_until_people_agree() -> None:
    ((task, key),) = export([item()], "anna")
    (found,) = merge([item()], votes_of([answer(task, key, "both", history=True)], [key]))
    assert isinstance(found, Item) and (found.labels, found.label_source) == (item().labels, "silver")
    ((again, other),) = export([item()], "bert")
    (closed,) = merge([found], votes_of([answer(again, other, "reference", history=True)], [other]))
    assert isinstance(closed, Item) and closed.label_source == "human"
    assert closed.labels == Labels(history=True)  # the silver preference does not slip into a human item
    assert closed.trace["consensus"] == {"history": "agreed", "preference": "open"}


def test_second_answer_replaces_the_first_and_skips_count_nothing() -> None:
    ((task, key),) = export([item()], "anna")
    said = [answer(task, key, "both", history=True), answer(task, key, "neither", history=False)]
    skipped = TaskAnswer(task=task.id, annotator="anna", skipped="distressing", history=True)
    votes = votes_of([*said, skipped], [key])["d1#1"]
    assert [(vote.question, vote.value) for vote in votes] == [("history", False), ("preference", "neither")]
    assert votes[0] == Vote(annotator="anna", question="history", value=False, candidate_first=key.candidate_first)


def test_wrong_keys_are_refused() -> None:
    ((task, key),) = export([item()], "anna")
    with pytest.raises(UserError, match="no key"):
        votes_of([answer(task, key, "both")], [])
    with pytest.raises(UserError, match="made for anna and comes back from bert"):
        votes_of([TaskAnswer(task=task.id, annotator="bert", history=True)], [key])
    with pytest.raises(UserError, match="d1#1"):
        list(merge([item(2)], votes_of([answer(task, key, "both")], [key])))
