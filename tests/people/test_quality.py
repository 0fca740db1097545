"""Gold items, practice, flags and labels on hold, on both databases."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from sqlalchemy import select
from tests.people.labelling import ALL_TRUE, Clock, answers, item, start

from compeer.cer.item import QUESTIONS, Item, Labels
from compeer.cli.people import annotate_app
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.people.exchange import labelled
from compeer.people.guideline import read_questions, set_questions
from compeer.people.invitations import Person, pause, people_of
from compeer.people.known_items import CheckedQueue, ItemAddresses, add_known, known_items, set_known
from compeer.people.labelling import AssignedItem, create_project
from compeer.people.labelling_results import agreement, labelling_progress
from compeer.people.quality import (
    Flag,
    QualitySettings,
    discard,
    hold,
    quality_of_people,
    release,
    set_settings,
)
from compeer.people.store import Refused, Store, open_store
from compeer.people.tables import items

RIGHT: dict[str, Any] = {**ALL_TRUE, "preference": "candidate"}
WRONG: dict[str, Any] = {**dict.fromkeys(ALL_TRUE, False), "preference": "neither"}


def known(number: int, **more: Any) -> Any:
    """An item whose labels say what is right."""
    labels = Labels(history=True, emotion=True, strategy=True, preference="candidate")
    return item(number, id=f"known-{number}", labels=labels, label_source="human", **more)


def work(
    store: Store,
    person: Person,
    thinks: Callable[[AssignedItem], Mapping[str, Any]],
    seconds: float = 40.0,
    most: int = 1000,
) -> list[AssignedItem]:
    """Label until there is nothing more for this person; what was shown."""
    seen: list[AssignedItem] = []
    queue = CheckedQueue(store)
    while len(seen) < most and (one := queue.next(person)) is not None:
        queue.submit(person, one.item, answers(one, thinks(one)), seconds=seconds)
        seen.append(one)
    return seen


def truth(one: AssignedItem) -> dict[str, Any]:
    """What a careful person thinks: it depends on the item."""
    n = int(one.task.history[-1].text.rstrip(".").split()[-1])
    return {"history": n % 3 > 0, "emotion": n % 4 > 0, "strategy": n % 2 > 0, "preference": ("candidate", "reference", "both")[n % 3]}  # fmt: skip


def careful(seed: int) -> Callable[[AssignedItem], Mapping[str, Any]]:
    """Somebody who now and then sees it differently."""
    rng = random.Random(seed)

    def thinks(one: AssignedItem) -> dict[str, Any]:
        found = truth(one)
        return {q: (not v if isinstance(v, bool) else "neither") if rng.random() < 0.1 else v for q, v in found.items()}

    return thinks


def careless(seed: int = 0) -> Callable[[AssignedItem], Mapping[str, Any]]:
    rng = random.Random(seed)
    return lambda _: {**{q: rng.random() < 0.5 for q in ALL_TRUE}, "preference": rng.choice(["candidate", "neither"])}


def by_name(store: Store, project: int) -> dict[str, Any]:
    return {one.name: one for one in quality_of_people(store, project)}


def test_gold_is_mixed_in_and_nobody_can_tell(store: Store) -> None:
    project, people = start(store, 40)
    assert add_known(store, project.id, [known(n) for n in range(100, 110)], "gold") == 10
    set_settings(store, project.id, QualitySettings(gold_share=0.2, hold=False))
    names = {one.number: one.name for one in known_items(store, project.id)}
    places = []
    for n, person in enumerate(people[:2]):
        shown = work(store, person, lambda _, n=n: (RIGHT, WRONG)[n])  # type: ignore[misc]
        gold = [place for place, one in enumerate(shown) if one.item in names]
        assert len({shown[place].item for place in gold}) == len(gold) == 10, "each once"
        assert len(shown) == 50 and all(sum(place // 5 == block for place in gold) == 1 for block in range(8))
        places.append(gold)
        assert {tuple(msgspec.structs.asdict(one.task)) for one in shown} == {
            tuple(msgspec.structs.asdict(shown[0].task))
        }
        assert all(one.task.questions == QUESTIONS for one in shown)
        assert CheckedQueue(store).own_progress(person).done == CheckedQueue(store).own_progress(person).total == 50
    assert places[0] != places[1], "at places that nobody can predict"
    found = by_name(store, project.id)
    assert (found["anna"].gold.value, found["anna"].gold.n, found["anna"].gold_items) == (1.0, 40, 10)
    assert 0.7 < found["anna"].gold.low < 0.73 and found["anna"].gold.high == 1.0, "Wilson, 10 independent items"
    assert found["ben"].gold.value == 0.0 and found["ben"].gold.high < 0.3
    assert "gold" in {one.kind for one in found["ben"].flags} and not found["ben"].on_hold, "only shown: hold is off"
    now = labelling_progress(store, project.id)
    assert now.items == 40 and now.closed + now.disputed == 40, "gold is no item to label"
    assert not any(one.id.startswith("known") for one in labelled(store, project.id, everything=True))
    assert agreement(store, project.id).questions["history"].units == 40


def test_addresses_do_not_tell_what_was_added_last(store: Store) -> None:
    start(store, 1)
    addresses = ItemAddresses(store)
    shown = [addresses.shown(number) for number in range(1, 200)]
    assert [addresses.number(one) for one in shown] == list(range(1, 200)) and len(set(shown)) == 199
    later = sum(one > max(shown[:150]) for one in shown[150:])
    assert shown != sorted(shown) and later < 10 and addresses.number(2**40) == 0


def test_gold_can_be_undone_skipped_and_taken_up_again_like_any_item(store: Store, clock: Clock) -> None:
    project, (anna, *_) = start(store, 3)
    add_known(store, project.id, [known(n) for n in range(100, 104)], "gold")
    set_settings(store, project.id, QualitySettings(gold_share=0.5))
    queue, gold = CheckedQueue(store), {one.number for one in known_items(store, project.id)}

    def until_gold() -> AssignedItem:
        while (one := queue.next(anna)) is not None and one.item not in gold:
            queue.submit(anna, one.item, answers(one, RIGHT))
        assert one is not None
        return one

    first = until_gold()
    clock.passes(3600)
    queue.return_expired()
    assert queue.view(anna, first.item).item == first.item
    again = queue.next(anna)
    assert again is not None and again.item == first.item, "begun, and nobody else has it"
    queue.submit(anna, first.item, answers(first, RIGHT))
    back = queue.undo(anna)
    assert back is not None and back.item == first.item and back.draft.answers == answers(first, RIGHT)
    queue.submit(anna, first.item, answers(first, WRONG))
    with pytest.raises(Refused, match="closed"):
        queue.submit(anna, first.item, answers(first, RIGHT))
    clock.passes(600)
    with pytest.raises(Refused, match="closed"):
        queue.undo(anna)
    second = until_gold()
    queue.skip(anna, second.item, "too hard")
    assert second.item not in {one.item for one in work(store, anna, lambda _: RIGHT)}


def test_items_of_the_project_become_gold_while_nobody_has_had_them(store: Store) -> None:
    project, (anna, *_) = start(store, 4)
    work(store, anna, lambda _: RIGHT, most=1)
    set_known(store, project.id, 4, "gold", {"history": False, "preference": "both"}, "Read the last line.")
    (one,) = known_items(store, project.id)
    assert (one.use, one.answers, one.explanation) == (
        "gold",
        {"history": "false", "preference": "both"},
        "Read the last line.",
    )
    assert labelling_progress(store, project.id).items == 3
    with pytest.raises(UserError, match="given to somebody already"):
        set_known(store, project.id, 1, "gold", {"history": True})
    with pytest.raises(UserError, match="no answer to history"):
        set_known(store, project.id, 2, "gold", {"history": "perhaps"})
    with pytest.raises(UserError, match="at least one"):
        set_known(store, project.id, 2, "practice", {})
    with pytest.raises(UserError, match="no label"):
        add_known(store, project.id, [item(9)], "gold")
    set_known(store, project.id, 4, "off", {})
    assert labelling_progress(store, project.id).items == 4 and known_items(store, project.id) == []


def test_practice_comes_first_is_explained_and_is_no_label(store: Store) -> None:
    project, (anna, *_) = start(store, 2)
    queue = CheckedQueue(store)
    assert not queue.practice_due(anna) and queue.practice(anna) is None
    add_known(store, project.id, [known(n, trace={"explanation": f"Because {n}."}) for n in (7, 8)], "practice")
    assert queue.practice_due(anna)
    first = queue.practice(anna)
    assert first is not None and (first.number, first.total, first.explained) == (1, 2, [])
    queue.answer_practice(anna, first.work.item, answers(first.work, RIGHT | {"emotion": False, "strategy": "unsure"}))
    told = queue.practice(anna, first.work.item)
    assert told is not None and told.explanation == "Because 7."
    liked = answers(first.work, RIGHT)["preference"]
    assert [(one.question, one.given, one.right) for one in told.explained] == [
        ("history", True, True), ("emotion", False, True), ("strategy", "unsure", True), ("preference", liked, liked),
    ]  # fmt: skip
    assert queue.practice_due(anna) and told.after is not None
    second = queue.practice(anna)
    assert second is not None and second.work.item == told.after
    queue.answer_practice(anna, second.work.item, answers(second.work, RIGHT))
    assert not queue.practice_due(anna)
    queue.answer_practice(anna, first.work.item, answers(first.work, RIGHT))
    again = queue.practice(anna, first.work.item)
    assert again is not None and all(one.given == one.right for one in again.explained), "it can be repeated"
    assert len(work(store, anna, lambda _: RIGHT)) == 2, "practice items are never given out as work"
    now = labelling_progress(store, project.id)
    assert now.items == 2 and now.people[0].done == 2
    with pytest.raises(Refused):
        queue.practice(anna, 1)


def test_forty_items_at_one_second_are_flagged_and_held(store: Store) -> None:
    project, (anna, ben, cleo) = start(store, 40)
    work(store, anna, careful(1))
    work(store, ben, careless(), seconds=1.0)
    found = by_name(store, project.id)
    assert not found["anna"].flags and found["anna"].holds == []
    assert found["ben"].on_hold and found["ben"].items == 10, "checked after ten"
    (flag,) = found["ben"].holds[0].flags
    assert flag.text == (
        "Median time per item: 1.0 s (items: 10). The others: 40 s. Below 5 s nobody can have read an item."
    )
    now = labelling_progress(store, project.id)
    assert (now.closed, now.disputed, now.withheld) == (0, 0, 10), "nothing was closed by them"
    assert now.people[1].withheld == 10 and now.people[1].done == 0 and now.people[1].paused
    assert CheckedQueue(store).next(next(one for one in people_of(store, project.id) if one.name == "ben")) is None
    assert agreement(store, project.id).questions["history"].units == 0
    with pytest.raises(UserError, match="on hold"):
        pause(store, project.id, "ben", False)
    assert len(work(store, cleo, careful(2))) == 30, "what waits for a decision is not given out"
    (one, *_) = labelled(store, project.id, everything=True)
    assert {vote["annotator"] for vote in one.trace["annotation"]["withheld"]} == {"ben"} and len(one.votes) == 4

    assert discard(store, project.id, "ben") == 10
    assert len(work(store, cleo, careful(2))) == 10, "then somebody else gets them"
    after = labelling_progress(store, project.id)
    assert after.withheld == 0 and after.people[1].discarded == 10 and after.closed + after.disputed == 40
    (one, *_) = labelled(store, project.id, everything=True)
    assert {vote["annotator"] for vote in one.trace["annotation"]["discarded"]} == {"ben"}
    assert {vote.annotator for vote in one.votes} == {"anna", "cleo"}
    with pytest.raises(UserError, match=r"No labels of ben are on hold"):
        release(store, project.id, "ben")


def test_released_labels_count_as_before_and_only_later_work_is_checked(store: Store, clock: Clock) -> None:
    project, (anna, ben, _) = start(store, 30)
    work(store, anna, truth)
    work(store, ben, truth, seconds=1.0)
    assert labelling_progress(store, project.id).closed == 0
    clock.passes(1)
    assert release(store, project.id, "ben") == 10
    now = labelling_progress(store, project.id)
    assert (now.closed, now.withheld, now.people[1].paused) == (10, 0, False)
    clock.passes(1)
    assert len(work(store, ben, truth, seconds=30.0)) == 20
    assert labelling_progress(store, project.id).closed == 30
    assert by_name(store, project.id)["ben"].items == 20


def test_kappa_flags_who_disagrees_with_everybody_and_not_the_others(store: Store) -> None:
    project, people = start(store, 100, "anna ben cleo dora")
    set_settings(store, project.id, QualitySettings(gold_share=0.0))
    thinking = [careful(1), careful(2), careful(3), lambda one: {q: not v if isinstance(v, bool) else "neither" for q, v in truth(one).items()}]  # fmt: skip
    for _ in range(20):  # in turn, a few items at a time
        for person, thinks in zip(people, thinking, strict=True):
            work(store, person, thinks, most=4)
    found = by_name(store, project.id)
    assert {name for name, one in found.items() if one.on_hold} == {"dora"}
    assert {flag.kind for flag in found["dora"].holds[0].flags} == {"agreement"}
    assert "Kappa with the others: -" in found["dora"].holds[0].flags[0].text
    assert found["dora"].kappa.high < 0.2 < found["anna"].kappa.low < found["anna"].kappa.value
    release(store, project.id, "dora")


def test_one_constant_answer_is_flagged_where_others_would_not_give_it(store: Store) -> None:
    project, (anna, ben, _) = start(store, 40)
    set_settings(store, project.id, QualitySettings(least_shared=1000))
    work(store, anna, truth)
    queue = CheckedQueue(store)
    while (one := queue.next(ben)) is not None:
        queue.submit(ben, one.item, {**ALL_TRUE, "preference": "first"}, seconds=30.0)
    (flag,) = by_name(store, project.id)["ben"].holds[0].flags
    assert flag.kind == "constant" and "true, true, true, first" in flag.text
    other = start_again(store, 20)
    for person in other:  # everybody sees it so: that is no sign of anything
        work(store, person, lambda _: RIGHT)
    assert not any(one.flags for one in by_name(store, other[0].project).values())


def start_again(store: Store, n_items: int) -> list[Person]:
    from compeer.people.invitations import invite
    from compeer.people.labelling import create_project

    made = create_project(store, "again", [item(n) for n in range(n_items)], audit_share=0.0)
    return [invite(store, made.project.id, name).person for name in ("eva", "finn")]


def test_a_third_vote_on_what_was_discarded_comes_back_as_a_draft(store: Store, clock: Clock) -> None:
    project, (anna, ben, cleo, dora) = start(store, 1, "anna ben cleo dora")
    work(store, anna, lambda _: RIGHT)
    work(store, ben, lambda _: RIGHT | {"history": False})
    (third,) = work(store, cleo, lambda _: RIGHT)
    assert third.task.questions == ("history",) and labelling_progress(store, project.id).closed == 1
    hold(store, project.id, "ben", [Flag("coordinator", {"words": "asked to"})])
    assert labelling_progress(store, project.id).closed == 0
    discard(store, project.id, "ben")
    (first,) = work(store, dora, lambda _: RIGHT | {"emotion": False})
    assert first.task.questions == QUESTIONS, "a whole first vote, by somebody new"
    (again,) = work(store, cleo, lambda _: RIGHT)
    assert again.task.questions == ("emotion",), "now this is disputed, and Cleo may still be the third"
    (done,) = labelled(store, project.id)
    assert done.trace["consensus"] == {"history": "agreed", "emotion": "adjudicated", "strategy": "agreed", "preference": "agreed"}  # fmt: skip
    assert done.labels == Labels(**RIGHT)


def test_unsure_asks_a_third_person_and_is_never_a_label(store: Store) -> None:
    project, (anna, ben, cleo) = start(store, 3)

    def at(number: int, said: Mapping[int, Any]) -> Callable[[AssignedItem], Mapping[str, Any]]:
        return lambda one: RIGHT | said.get(int(one.task.history[0].text.rstrip(".").split()[-1]), {})

    work(store, anna, at(0, {0: {"history": "unsure"}, 1: {"emotion": "unsure"}, 2: {"preference": "unsure"}}))
    work(store, ben, at(1, {1: {"emotion": "unsure"}}))
    seen = work(store, cleo, at(2, {2: {"preference": "reference"}}))
    assert [one.task.questions for one in seen] == [("history",), ("preference",)], (
        "where both are unsure nobody is asked"
    )
    done = {one.id: one for one in labelled(store, project.id)}
    assert (done["d0#1"].labels.history, done["d0#1"].trace["consensus"]["history"]) == (True, "adjudicated")
    assert (done["d1#1"].labels.emotion, done["d1#1"].trace["consensus"]["emotion"]) == (None, "dropped")
    assert (done["d2#1"].labels.preference, done["d2#1"].trace["consensus"]["preference"]) == (None, "dropped")
    assert done["d0#1"].trace["annotation"]["unsure"] == {"anna": ["history"]}
    assert not any(vote.value == "unsure" for one in done.values() for vote in one.votes)
    found = agreement(store, project.id).questions
    assert (found["history"].units, found["history"].unsure) == (2, 1)
    assert (found["preference"].units, found["preference"].unsure, found["preference"].percent) == (2, 1, 1.0)
    people = by_name(store, project.id)
    assert people["anna"].unsure.value == pytest.approx(3 / 12)


def test_agreement_has_intervals(store: Store) -> None:
    project, (anna, ben, _) = start(store, 40)
    set_settings(store, project.id, QualitySettings(hold=False))
    work(store, anna, truth)
    work(store, ben, careful(5))
    found = agreement(store, project.id).questions["history"]
    percent, kappa = found.figures["percent"], found.figures["kappa"]
    assert percent.value == found.percent and percent.low < found.percent < percent.high and percent.n == 40
    assert kappa.value == pytest.approx(found.kappa) and kappa.low < found.kappa < kappa.high
    assert found.figures["alpha"].low < found.alpha < found.figures["alpha"].high


@pytest.mark.parametrize(
    "wrong", [{"gold_share": 0.6}, {"gold_share": -0.1}, {"kappa": 2.0}, {"gold_right": 7.0}, {"floor_seconds": -1.0}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError):
        QualitySettings(**wrong).check()  # type: ignore[arg-type]


@pytest.fixture
def app() -> typer.Typer:
    return annotate_app


def test_the_commands_know_gold_flags_and_holds(tmp_path: Path, told: Callable[..., str]) -> None:
    db, gold = str(tmp_path / "a.db"), str(tmp_path / "gold.jsonl")
    store = open_store(db)
    _, (anna, ben, _) = start(store, 20)
    write_rows(gold, [known(n) for n in range(100, 104)])
    assert "4 gold items were added" in told("known", gold, "--db", db)
    assert json.loads(told("quality", "--gold-share", "0.25", "--db", db, "--json"))["settings"]["gold_share"] == 0.25
    work(store, anna, truth)
    work(store, ben, careless(), seconds=1.0)
    assert "ben: Median time per item: 1.0 s (items: 10)" in " ".join(told("quality", "--db", db).split())
    said = " ".join(told("status", "--db", db).split())
    assert "wait for a decision about labels on hold" in said and "on hold: 10" in said
    out = str(tmp_path / "out.jsonl")
    assert "Items with labels on hold, which do not count" in told("export", "--out", out, "--all", "--db", db)
    held = [
        one.trace["annotation"]["withheld"]
        for one in read_rows(out, Item)
        if "withheld" in one.trace.get("annotation", {})
    ]
    assert held and {vote["annotator"] for votes in held for vote in votes} == {"ben"}
    assert "ben: 10 items released" in told("release", "ben", "--db", db)
    assert "on hold" in told("hold", "ben", "--reason", "looked odd", "--db", db)
    assert "discarded" in told("discard", "ben", "--db", db)
    assert "discarded: 10" in " ".join(told("status", "--db", db).split())
    assert "95 % intervals" in told("agreement", "--db", db)
    store.close()


def test_gold_items_ask_the_projects_own_questions_too(tmp_path: Path) -> None:
    """An item without them would give gold away."""
    store = open_store(tmp_path / "a.db")
    project = create_project(store, "trial", [item(n) for n in range(2)]).project.id
    set_questions(store, project, read_questions([{"id": "warmth", "text": "Warm?", "answers": ["yes", "no"]}]))
    add_known(store, project, [item(7, labels=Labels(history=True, preference="candidate"))], "gold")
    with store.read() as db:
        assert {row.questions for row in db.execute(select(items))} == {"history,emotion,strategy,preference,warmth"}
    store.close()
