"""Tasks for teams that already run another tool, and their answers back.

blind           which reply comes first, and the name a task has outside
label_studio    a JSON file of tasks with a labelling configuration
potato          a project folder with its configuration

Tasks for other tools are blind too: a name that tells nothing, and an order of replies drawn for each item.

Both hang on the project's seed, so no key file travels along and reading answers back needs nothing but the project.
Another tool shows one task to everybody, so here the order is the item's and not the person's.

Label Studio: tasks as it imports them, with a labelling configuration, and its exported annotations back.

A task is {"data": …, "annotations": […]}; an annotation has `completed_by`, `lead_time`, `created_at` and a `result`
for each question, of the type `choices` (labelstud.io/guide/task_format). Its data hold the conversation for the
Paragraphs tag, the three steps and the two replies, and the blind name of the task. People are known by
`completed_by`: an e-mail address where Label Studio writes one, else its number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from xml.sax.saxutils import quoteattr

import msgspec

from compeer.cer.item import QUESTIONS, Item, Question, Vote
from compeer.errors import UserError
from compeer.people.labelling_queue import as_shown
from compeer.reasoning import STEPS, render_step
from compeer.reward.verdict import preference_of
from compeer.typed import from_json


class Blind(msgspec.Struct, frozen=True):
    """An item as another tool may show it."""

    name: str
    item: str
    candidate_first: bool
    first: str
    second: str
    steps: dict[str, str]  # empty without reasoning: then only the replies are compared


def blind(item: Item, seed: int) -> Blind | None:
    """The item as a blind task; None without a candidate."""
    if item.candidate is None:
        return None
    name, candidate_first = names(item.id, seed)
    replies = (item.candidate.response, item.reference)
    first, second = replies if candidate_first else replies[::-1]
    reasoning = item.candidate.reasoning
    steps = {step: render_step(reasoning, step) for step in STEPS} if reasoning else {}
    return Blind(name, item.id, candidate_first, first, second, steps)


def names(item: str, seed: int) -> tuple[str, bool]:
    """What an item is called outside, and whether its candidate is shown first there."""
    digest = hashlib.blake2b(f"{seed}\x1f{item}".encode(), digest_size=12, person=b"outside").digest()
    return digest[:10].hex(), digest[10] < 128


def keys(items: Iterable[str], seed: int) -> dict[str, tuple[str, bool]]:
    """For reading answers: the item and the order behind each name."""
    found = {}
    for item in items:
        name, candidate_first = names(item, seed)
        found[name] = (item, candidate_first)
    return found


def value_of(question: Question, said: str, candidate_first: bool) -> bool | str | None:
    """An answer of another tool; None when it is none.

    >>> value_of("emotion", "wrong", True), value_of("preference", "First", False), value_of("history", "?", True)
    (False, 'reference', None)
    """
    word = said.strip().lower()
    if question != "preference":
        return {"true": True, "right": True, "false": False, "wrong": False}.get(word)
    if word not in ("first", "second", "both", "neither"):
        return None
    return preference_of(word, candidate_first)  # type: ignore[arg-type]


_HEADINGS = {
    "history": "1 History: is this what the person is facing?",
    "emotion": "2 Emotion: is this what they feel?",
    "strategy": "3 Strategy: would this help now?",
}
_PREFERENCES = {
    "first": "The first reply is better",
    "second": "The second reply is better",
    "both": "Both are about equally good",
    "neither": "Neither is acceptable",
}


def config(items: Iterable[Item]) -> str:
    """The labelling configuration for these items, as XML."""
    given = list(items)
    thinking = all(item.candidate is None or item.candidate.reasoning is not None for item in given)
    lines = ["<View>", '  <Paragraphs name="conversation" value="$conversation" layout="dialogue" nameKey="speaker" '
             'textKey="text"/>']  # fmt: skip
    if any(turn.images for item in given for turn in item.history):
        lines.append('  <Image name="pictures" valueList="$pictures"/>')
    for step in STEPS:
        lines += [
            f"  <Header value={quoteattr(_HEADINGS[step])}/>",
            f'  <Text name="step_{step}" value="$step_{step}"/>',
        ]
        lines += _choices(step, f"step_{step}", {"true": "True", "false": "False"}, thinking)
    lines += [
        '  <Header value="4 Replies"/>',
        '  <Text name="first" value="$first"/>',
        '  <Text name="second" value="$second"/>',
    ]
    lines += _choices("preference", "second", _PREFERENCES, True)
    return "\n".join([*lines, "</View>", ""])


def tasks(items: Iterable[Item], seed: int, *, annotations: bool = True) -> Iterator[dict[str, Any]]:
    """A task for each item with a candidate, and with `annotations` the votes that the item carries."""
    for item in items:
        shown = blind(item, seed)
        if shown is None:
            continue
        task: dict[str, Any] = {"data": _data(item, shown)}
        if annotations and item.votes:
            task["annotations"] = list(_annotations(item, shown))
        yield task


def write(folder: Path, items: Iterable[Item], seed: int, *, annotations: bool = True) -> int:
    """Write `tasks.json` and `config.xml` into a folder; returns how many tasks."""
    given = list(items)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.xml").write_text(config(given), encoding="utf-8")
    found = list(tasks(given, seed, annotations=annotations))
    (folder / "tasks.json").write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    return len(found)


def read(path: Path, names: Iterable[str], seed: int) -> dict[str, list[Vote]]:
    """Votes by item from an export in Label Studio's JSON format. Tasks of other projects are passed over."""
    if path.is_dir():
        path = path / "tasks.json"
    try:
        given = from_json(path.read_bytes(), list[dict[str, Any]])
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no JSON export of Label Studio, which is a list of tasks: {error}") from None
    known = keys(names, seed)
    found: dict[str, list[Vote]] = {}
    for task in given:
        data = task.get("data")
        key = known.get(str(data.get("task"))) if isinstance(data, Mapping) else None
        if key is None:
            continue
        votes = [vote for one in task.get("annotations") or [] for vote in _votes(one, key[1])]
        if votes:
            found.setdefault(key[0], []).extend(votes)
    if given and not found:
        raise UserError(
            f"No annotation in {path} belongs to a task of this project. Tasks are known by the name that export gave "
            "them (data.task)."
        )
    return found


def _text(name: str) -> str:
    return f'  <Text name="{name}" value="${name}"/>'


def _choices(name: str, to: str, options: Mapping[str, str], required: bool) -> list[str]:
    needed = ' required="true" requiredMessage="Please answer every question"' if required else ""
    lines = [f'  <Choices name="{name}" toName="{to}" choice="single" showInLine="true"{needed}>']
    lines += [f'    <Choice alias="{key}" value={quoteattr(text)}/>' for key, text in options.items()]
    return [*lines, "  </Choices>"]


def _data(item: Item, shown: Blind) -> dict[str, Any]:
    data: dict[str, Any] = {
        "task": shown.name,
        "conversation": [{"speaker": turn.speaker, "text": turn.text} for turn in item.history],
        **{f"step_{step}": shown.steps.get(step, "") for step in STEPS},
        "first": shown.first,
        "second": shown.second,
    }
    if pictures := [path for turn in item.history for path in turn.images]:
        data["pictures"] = pictures
    return data


def _annotations(item: Item, shown: Blind) -> Iterator[dict[str, Any]]:
    for name in dict.fromkeys(vote.annotator for vote in item.votes):
        cast_votes = [vote for vote in item.votes if vote.annotator == name]
        yield {
            "completed_by": {"email": name},
            "created_at": cast_votes[0].at,
            "lead_time": cast_votes[0].seconds,
            "was_cancelled": False,
            "ground_truth": False,
            "result": [
                {
                    "id": f"{shown.name}-{vote.question}",
                    "from_name": vote.question,
                    "to_name": "second" if vote.question == "preference" else f"step_{vote.question}",
                    "type": "choices",
                    "value": {"choices": [str(as_shown(vote.value, shown.candidate_first)).lower()]},
                }
                for vote in cast_votes
            ],
        }


def _votes(annotation: Mapping[str, Any], candidate_first: bool) -> Iterator[Vote]:
    if annotation.get("was_cancelled"):
        return
    options = {text.lower(): key for key, text in _PREFERENCES.items()}
    for part in annotation.get("result") or []:
        question = part.get("from_name")
        chosen = (part.get("value") or {}).get("choices") or []
        if question not in QUESTIONS or len(chosen) != 1:
            continue
        said = str(chosen[0]).lower()
        value = value_of(question, options.get(said, said), candidate_first)
        if value is not None:
            yield Vote(
                annotator=_who(annotation.get("completed_by")),
                question=cast(Question, question),
                value=cast(Any, value),
                at=annotation.get("created_at"),
                seconds=annotation.get("lead_time"),
                candidate_first=candidate_first,
            )


def _who(completed_by: Any) -> str:
    if isinstance(completed_by, Mapping):
        return str(completed_by.get("email") or f"label-studio-{completed_by.get('id')}")
    return f"label-studio-{completed_by}"
