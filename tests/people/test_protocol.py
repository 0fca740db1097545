"""The 2 + 1 rules on ballots, without any store."""

from __future__ import annotations

from typing import Any

import pytest
from tests.people.labelling import item

from compeer.cer.item import QUESTIONS
from compeer.people.protocol import Ballot, disputed, questions_for, stage, verdicts


def ballot(turn: Any, history: bool | None = None, preference: Any = None) -> Ballot:
    given = {"history": history, "preference": preference}
    return Ballot(f"somebody-{id(given)}", turn, {name: value for name, value in given.items() if value is not None})  # type: ignore[misc]


ASKED = ("history", "preference")


@pytest.mark.parametrize(
    ("ballots", "waits_for", "about", "statuses"),
    [
        ([], "first", (), ("open", "open")),
        ([ballot("first", True, "both")], "first", (), ("open", "open")),
        ([ballot("first", True, "both")] * 2, "closed", (), ("agreed", "agreed")),
        (
            [ballot("first", True, "both"), ballot("first", True, "neither")],
            "third",
            ("preference",),
            ("agreed", "open"),
        ),
        (
            [ballot("first", True, "both"), ballot("first", False, "neither"), ballot("third", False, "neither")],
            "closed",
            ("history", "preference"),
            ("adjudicated", "adjudicated"),
        ),
        (  # three different answers, which only the preference can have
            [ballot("first", True, "both"), ballot("first", True, "neither"), ballot("third", None, "candidate")],
            "closed",
            ("preference",),
            ("agreed", "dropped"),
        ),
        (  # an audit changes nothing
            [ballot("first", True, "both")] * 2 + [ballot("audit", False, "candidate")],
            "closed",
            (),
            ("agreed", "agreed"),
        ),
    ],
)
def test_what_an_item_waits_for(ballots: list[Ballot], waits_for: str, about: Any, statuses: Any) -> None:
    assert stage(ASKED, ballots) == waits_for
    assert disputed(ASKED, ballots) == about
    assert tuple(one.status for one in verdicts(ASKED, ballots).values()) == statuses


def test_a_third_vote_counts_after_the_first_two_in_whatever_order_they_are_read() -> None:
    cast = [ballot("third", None, "both"), ballot("first", True, "neither"), ballot("first", True, "both")]
    assert verdicts(ASKED, cast)["preference"] == ("both", "adjudicated")


def test_without_reasoning_only_the_replies_are_compared() -> None:
    assert questions_for(item(1)) == QUESTIONS
    assert questions_for(item(1, thinks=False)) == ("preference",)
    assert questions_for(item(1, candidate=None)) == ()
