"""Judges against sets: who was trained on what stands in the rows, what it was tested on in the columns.

With one judge for each corpus and one set for each corpus this is the cross-corpus table: the diagonal is at home,
the rest is abroad. Sets with labels of different origin are different columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from compeer.reasoning import STEPS
from compeer.reward.evaluation.measure import Result

TITLES = {
    "steps_weighted_f1": "Steps, mean weighted F1",
    "steps_recall_false": "Steps, mean recall of False",
    "reply_weighted_f1": "Reply, weighted F1",
}


class Matrix(msgspec.Struct, frozen=True):
    """One figure for each judge (row) on each set (column); None where the judge does not answer this question."""

    figure: str
    title: str
    judges: list[str]
    sets: list[str]
    values: list[list[float | None]]


def matrices(sections: Sequence[tuple[str, Sequence[Result]]]) -> list[Matrix]:
    """The tables over several sets; nothing for one."""
    if len(sections) < 2:
        return []
    names = list(dict.fromkeys(one.name for _, results in sections for one in results if one.role != "baseline"))
    columns = [{one.name: one for one in results} for _, results in sections]
    made = [
        Matrix(
            figure,
            title,
            names,
            [name for name, _ in sections],
            [[_value(column.get(name), figure) for column in columns] for name in names],
        )
        for figure, title in TITLES.items()
    ]
    return [one for one in made if any(value is not None for row in one.values for value in row)]


def _value(result: Result | None, figure: str) -> float | None:
    if result is None:
        return None
    if figure == "reply_weighted_f1":
        reply = result.questions.get("preference")
        return reply.figures["weighted_f1"].value if reply else None
    name = figure.removeprefix("steps_")
    values = [result.questions[step].figures[name].value for step in STEPS if step in result.questions]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
