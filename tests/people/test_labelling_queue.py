"""Who gets what: order, places, leases, blindness. Every test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from tests.people.labelling import ALL_TRUE, Clock, answers, item, label_all, start

from compeer.errors import UserError
from compeer.people.guideline import (
    Guideline,
    QuestionGuide,
    current_guideline,
    guideline_versions,
    read_questions,
    save_guideline,
    set_questions,
)
from compeer.people.invitations import invite, pause, revoke, set_limits
from compeer.people.labelling import LabellingQueue, create_project
from compeer.people.labelling_results import agreement, records
from compeer.people.store import Refused, Store
from compeer.people.tables import items, leases, refusals, skips, votes
from compeer.people.work_queue import Draft

YES: dict[str, Any] = {**ALL_TRUE, "preference": "candidate"}


def take(store: Store, person: Any) -> int:
    work = LabellingQueue(store).next(person)
    assert work is not None
    return work.item


def kinds(store: Store) -> list[str]:
    with store.read() as db:
        return list(db.execute(select(refusals.c.kind).order_by(refusals.c.id)).scalars())


def test_what_is_begun_is_finished_first_and_nobody_sees_an_item_twice(store: Store) -> None:
    _, (anna, ben, cleo) = start(store, 4)
    first = LabellingQueue(store).next(anna)
    assert first is not None and first.task.history[0].text == "I lost my job, number 0."
    assert take(store, anna) == first.item  # asking again gives the same, not another
    assert take(store, ben) == first.item  # the second place
    third = take(store, cleo)
    assert third != first.item  # both places are taken, though nobody has voted yet
    LabellingQueue(store).submit(anna, first.item, answers(first, YES))
    assert take(store, anna) == third  # begun by cleo, before the untouched ones
    rest = [work.item for work in label_all(store, ben, lambda _: YES)]
    assert len(rest) == len(set(rest)) == 3 and third not in rest  # cleo and anna have the two places there


def test_the_third_is_asked_exactly_what_is_disputed_and_had_never_seen_it(store: Store) -> None:
    _, (anna, ben, cleo) = start(store, 3)
    label_all(store, anna, lambda _: YES)
    label_all(store, ben, lambda work: YES if work.item % 3 else YES | {"emotion": False, "preference": "both"})
    disputed = label_all(store, cleo, lambda _: YES | {"preference": "neither"})
    assert [work.task.questions for work in disputed] == [("emotion", "preference")]
    assert (
        LabellingQueue(store).next(anna) is None and LabellingQueue(store).next(ben) is None
    )  # they have seen everything


def test_a_task_tells_neither_whose_reply_is_whose_nor_what_others_said(store: Store) -> None:
    _, people = start(store, 30, "anna ben")
    label_all(store, people[0], lambda _: YES)
    shown = label_all(store, people[1], lambda _: YES)
    firsts = {work.task.first.split()[0] for work in shown}
    assert firsts == {"CAND", "REF"}  # the order is drawn
    text = repr(shown[0])
    assert "secret" not in text and "candidate" not in text and "anna" not in text and shown[0].draft.answers == {}
    with store.read() as db:
        rows = db.execute(select(leases.c.item, leases.c.annotator, leases.c.candidate_first)).all()
        cast = {
            (row.item, row.annotator): row for row in db.execute(select(votes).where(votes.c.question == "preference"))
        }
    assert all(cast[row.item, row.annotator].answer == "candidate" for row in rows)  # kept by origin, not by place
    assert all(cast[row.item, row.annotator].candidate_first == row.candidate_first for row in rows)
    orders = {row.item: set() for row in rows}
    for row in rows:
        orders[row.item].add(row.candidate_first)
    assert 3 < sum(len(one) == 2 for one in orders.values()) < 27  # another order for another person


def test_an_abandoned_lease_returns_and_its_owner_may_go_on_while_it_is_free(store: Store, clock: Clock) -> None:
    _, (anna, ben, cleo) = start(store, 1, lease_minutes=10)
    number = take(store, anna)
    assert take(store, ben) == number and LabellingQueue(store).next(cleo) is None
    LabellingQueue(store).keep(anna, number, Draft({"history": False}, "hm"))
    clock.passes(9 * 60)
    draft = Draft({"history": False, "emotion": True}, "hm")
    LabellingQueue(store).keep(anna, number, draft)  # this renews hers, not ben's
    clock.passes(2 * 60)
    assert take(store, cleo) == number  # ben's place
    clock.passes(9 * 60)
    back = LabellingQueue(store).next(anna)  # her own ran out as well, but nobody has taken it
    assert back is not None and back.item == number and back.draft.answers == {"history": False, "emotion": True}
    with pytest.raises(Refused, match="somebody else has this item now"):
        LabellingQueue(store).submit(ben, number, answers(back, YES))
    assert kinds(store) == ["lapsed"] and LabellingQueue(store).next(ben) is None


def test_a_late_answer_counts_when_nobody_has_taken_the_place(store: Store, clock: Clock) -> None:
    _, (anna, ben, _) = start(store, 1)
    work = LabellingQueue(store).next(anna)
    assert work is not None
    clock.passes(86400)
    assert take(store, ben) == work.item  # reaps anna's lease
    LabellingQueue(store).submit(anna, work.item, answers(work, YES))
    with store.read() as db:
        assert len(db.execute(select(votes)).all()) == 4


def test_a_skipped_item_goes_to_others_with_the_reason_kept(store: Store) -> None:
    _, (anna, ben, cleo) = start(store, 1)
    number = take(store, anna)
    LabellingQueue(store).skip(anna, number, "too close to home", distress=True)
    assert LabellingQueue(store).next(anna) is None
    assert take(store, ben) == take(store, cleo) == number
    with store.read() as db:
        row = db.execute(select(skips)).one()
    assert (row.reason, bool(row.distress)) == ("too close to home", True)
    for again in (
        lambda: LabellingQueue(store).skip(anna, number, "again"),
        lambda: LabellingQueue(store).view(anna, number),
    ):
        with pytest.raises(Refused):
            again()


def test_someone_who_skipped_or_let_it_lapse_is_never_the_third(store: Store, clock: Clock) -> None:
    _, (anna, ben, cleo, dora) = start(store, 1, "anna ben cleo dora")
    LabellingQueue(store).skip(cleo, take(store, cleo), "unsure")
    take(store, dora)
    clock.passes(86400)
    label_all(store, anna, lambda _: YES)
    label_all(store, ben, lambda _: YES | {"history": False})
    assert LabellingQueue(store).next(cleo) is None and LabellingQueue(store).next(dora) is None


def test_paused_people_and_coordinators_get_nothing(store: Store) -> None:
    project, (anna, ben, cleo) = start(store, 1)
    number = take(store, anna)
    take(store, ben)
    pause(store, project.id, "anna")
    assert LabellingQueue(store).next(anna) is None and take(store, cleo) == number  # her place is free at once
    with pytest.raises(Refused, match="paused"):
        LabellingQueue(store).submit(anna, number, {})
    pause(store, project.id, "anna", False)
    assert LabellingQueue(store).next(anna) is None  # somebody else has it now
    chief = invite(store, project.id, "chief", "coordinator").person
    assert LabellingQueue(store).next(chief) is None
    revoke(store, project.id, "ben")
    with pytest.raises(Refused, match="ended"):
        LabellingQueue(store).next(ben)


def test_items_of_others_and_of_other_projects_are_refused_and_logged(store: Store) -> None:
    _, (anna, ben, _) = start(store, 2)
    other = create_project(store, "other", [item(99)]).project
    stranger = invite(store, other.id, "anna").person
    mine = take(store, anna)
    theirs = take(store, stranger)
    for person, number in ((ben, mine), (anna, theirs), (stranger, mine), (anna, 2**40), (anna, -1)):
        for attempt in (
            lambda p=person, n=number: LabellingQueue(store).view(p, n),
            lambda p=person, n=number: LabellingQueue(store).submit(p, n, {**ALL_TRUE, "preference": "first"}),
            lambda p=person, n=number: LabellingQueue(store).keep(p, n, Draft()),
            lambda p=person, n=number: LabellingQueue(store).skip(p, n, "because"),
        ):
            with pytest.raises(Refused) as refusal:
                attempt()
            assert refusal.value.kind == "not-yours" and refusal.value.status == 403
    assert kinds(store) == ["not-yours"] * 20
    with store.read() as db:
        assert db.execute(select(votes)).all() == [] and db.execute(select(skips)).all() == []


def test_a_third_lease_locks_what_the_first_two_said_until_it_returns(store: Store, clock: Clock) -> None:
    _, (anna, ben, cleo) = start(store, 1)
    (work,) = label_all(store, anna, lambda _: YES)
    label_all(store, ben, lambda _: YES | {"history": False})
    third = LabellingQueue(store).next(cleo)
    assert third is not None and third.task.questions == ("history",)
    with pytest.raises(Refused, match="Somebody else has been given this item"):
        LabellingQueue(store).submit(anna, work.item, answers(work, YES | {"history": False}))
    clock.passes(3600)  # cleo is gone
    LabellingQueue(store).submit(anna, work.item, answers(work, YES | {"history": False}))  # now anna agrees with ben
    assert LabellingQueue(store).next(cleo) is None
    with pytest.raises(Refused):
        LabellingQueue(store).submit(cleo, work.item, {"history": True})
    with store.read() as db:
        assert db.execute(select(items.c.stage)).scalar() == "closed"


def test_the_queue_agrees_with_the_votes_after_undoing(store: Store) -> None:
    _, (anna, ben, cleo) = start(store, 1)
    label_all(store, anna, lambda _: YES)
    label_all(store, ben, lambda _: YES)
    assert LabellingQueue(store).next(cleo) is None
    assert LabellingQueue(store).undo(ben) is not None  # his place is held, not free
    assert LabellingQueue(store).next(cleo) is None
    assert [work.task.questions for work in label_all(store, ben, lambda _: YES | {"history": False})] == [
        ("history", "emotion", "strategy", "preference")
    ]
    third = LabellingQueue(store).next(cleo)
    assert third is not None and third.task.questions == ("history",)


def test_own_questions_limits_and_the_guideline_on_both_databases(store: Store) -> None:
    project, (anna, ben, cleo) = start(store, 3)
    own = [{"id": "warmth", "text": {"en": "How warm?"}, "answers": ["cold", "mild", "warm"]}]
    set_questions(store, project.id, read_questions(own))
    set_limits(store, project.id, "anna", languages=("en",), quota=2)
    thinks: dict[str, Any] = {**ALL_TRUE, "preference": "both"}
    assert len(label_all(store, anna, lambda _: {**thinks, "warmth": "cold"})) == 2
    saved = save_guideline(store, project.id, Guideline(questions={"warmth": {"en": QuestionGuide("Think twice.")}}))
    assert saved.version == "2" and current_guideline(store, project.id) == saved
    assert [one.version for one in guideline_versions(store, project.id)] == ["2", "1"]
    assert save_guideline(store, project.id, saved.guideline) == saved, "what is the same makes no version"
    label_all(store, ben, lambda _: {**thinks, "warmth": "warm"}, most=2)
    third = label_all(store, cleo, lambda _: {**thinks, "warmth": "mild"}, most=2)
    assert [one.task.questions for one in third] == [("warmth",)] * 2, "a third is asked what is disputed alone"
    record = next(records(store, project.id))
    assert record.verdicts["warmth"].status == "dropped"  # type: ignore[index]
    assert {one.vote.annotator: one.vote.guideline for one in record.votes} == {"anna": "1", "ben": "2", "cleo": "2"}
    found = agreement(store, project.id).questions["warmth"]  # type: ignore[index]
    assert (found.units, found.percent) == (2, 0.0) and list(found.values) == ["cold", "mild", "warm"]
    with pytest.raises(UserError, match="only the texts"):
        set_questions(store, project.id, [])
