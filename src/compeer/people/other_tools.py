"""Blind tasks for teams that already use Label Studio or Potato, and their answers back.

A task has a name that tells nothing and an order of replies drawn for each item. Both depend on the project's seed, so
no key file travels along and reading answers back needs nothing but the project. Another tool shows one task to
everybody, so here the order belongs to the item and not to the person.

Label Studio: `tasks.json` as it imports them, with a labelling configuration. A task is {"data": …}, and in an export
{"data": …, "annotations": …}. An annotation has `completed_by`, `lead_time`, `created_at` and a `result` per question,
of the type `choices` (labelstud.io/guide/task_format). People are known by `completed_by`: an e-mail address where
Label Studio writes one, else its number.

Potato: the folder that `potato start` takes: `config.yaml`, `data/items.jsonl`, and a folder per annotator under
`annotation_output`. Answers are in `user_state.json` there (Potato 2), as pairs of {"schema", "name"} and a value;
older versions write `annotated_instances.jsonl` with `label_annotations`. Both are read. Potato shows an item's text as
HTML, so all text is escaped. A step is called right or wrong, since a value that reads "False" may mean either the
answer or that nothing was chosen.

Votes that there are already do not go out: whoever labels must not see what others said.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec
import yaml

from compeer.cer.exchange import LabelTask, task_for
from compeer.cer.item import QUESTIONS, Item, Question, Vote
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.people.protocol import questions_for
from compeer.reasoning import STEPS
from compeer.reward.verdict import CHOICES, preference_of
from compeer.typed import from_json

_LABEL_STUDIO_CONFIG = Path(__file__).with_name("label_studio.xml")
_POTATO_CONFIG = Path(__file__).with_name("potato.yaml")
_POTATO_ANSWERS = "annotation_output"


class OutsideAnswer(NamedTuple):
    """What one person answered to one question of a task, as the other tool says it."""

    task: str
    person: str
    question: str
    said: str
    at: str | None = None
    seconds: float | None = None


def outside_tasks(items: Iterable[Item], seed: int) -> list[LabelTask]:
    """The items with a candidate as blind tasks."""
    found = []
    for item in items:
        if item.candidate is not None:
            name, first = _outside_name(item.id, seed)
            found.append(task_for(item, candidate_first=first, name=name, questions=questions_for(item)))
    return found


def write_label_studio(folder: Path, items: Iterable[Item], seed: int) -> int:
    """Write `tasks.json` and `config.xml` into a folder, and return how many tasks."""
    given = outside_tasks(items, seed)
    folder.mkdir(parents=True, exist_ok=True)
    view = ElementTree.parse(_LABEL_STUDIO_CONFIG)
    root = view.getroot()
    if not any(turn.images for task in given for turn in task.history):
        root.remove(root.find("Image"))  # type: ignore[arg-type]
    if any(task.reasoning is None for task in given):  # then a step may have nothing to answer
        for choices in root.iter("Choices"):
            if choices.get("name") != "preference":
                del choices.attrib["required"], choices.attrib["requiredMessage"]
    view.write(folder / "config.xml", encoding="utf-8")
    tasks = [{"data": _label_studio_data(task)} for task in given]
    (folder / "tasks.json").write_bytes(msgspec.json.format(msgspec.json.encode(tasks)))
    return len(tasks)


def read_label_studio(path: Path, names: Iterable[str], seed: int) -> dict[str, list[Vote]]:
    """Votes by item from an export in Label Studio's JSON format. Tasks of other projects are ignored."""
    if path.is_dir():
        path = path / "tasks.json"
    try:
        given = from_json(path.read_bytes(), list[dict[str, Any]])
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no JSON export of Label Studio, which is a list of tasks: {error}") from None
    found = _votes(_label_studio_answers(given), names, seed)
    if given and not found:
        raise UserError(
            f"No annotation in {path} belongs to a task of this project. Tasks are known by the name that export gave "
            "them (data.task)."
        )
    return found


def _label_studio_data(task: LabelTask) -> dict[str, Any]:
    steps, pictures = task.reasoning or {}, [path for turn in task.history for path in turn.images]
    return {
        "task": task.id,
        "conversation": [{"speaker": turn.speaker, "text": turn.text} for turn in task.history],
        **{f"step_{step}": steps.get(step, "") for step in STEPS},
        "first": task.first,
        "second": task.second,
        **({"pictures": pictures} if pictures else {}),
    }


def _label_studio_answers(tasks: Iterable[Mapping[str, Any]]) -> Iterator[OutsideAnswer]:
    # Label Studio may write the text that is shown instead of the alias
    choices = ElementTree.parse(_LABEL_STUDIO_CONFIG).iter("Choice")
    aliases = {str(choice.get("value")).lower(): str(choice.get("alias")) for choice in choices}
    for task in tasks:
        data = task.get("data")
        name = str(data.get("task")) if isinstance(data, Mapping) else ""
        for annotation in task.get("annotations") or []:
            who, at, seconds = (annotation.get(key) for key in ("completed_by", "created_at", "lead_time"))
            number = who.get("id") if isinstance(who, Mapping) else who
            email = who.get("email") if isinstance(who, Mapping) else None
            for part in [] if annotation.get("was_cancelled") else annotation.get("result") or []:
                chosen = (part.get("value") or {}).get("choices") or []
                if len(chosen) == 1:
                    said, person = str(chosen[0]).lower(), str(email or f"label-studio-{number}")
                    yield OutsideAnswer(name, person, part.get("from_name"), aliases.get(said, said), at, seconds)


def write_potato(folder: Path, items: Iterable[Item], seed: int, *, title: str) -> int:
    """Write a Potato project and return how many items it has."""
    given = outside_tasks(items, seed)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    settings = yaml.safe_load(_POTATO_CONFIG.read_text(encoding="utf-8")) | {"annotation_task_name": title}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return write_rows(folder / "data" / "items.jsonl", ({"id": task.id, "text": _potato_text(task)} for task in given))


def read_potato(folder: Path, names: Iterable[str], seed: int) -> dict[str, list[Vote]]:
    """Votes by item from a Potato project's output."""
    output = folder / _POTATO_ANSWERS if (folder / _POTATO_ANSWERS).is_dir() else folder
    people = sorted(path for path in output.glob("*") if path.is_dir()) if output.is_dir() else []
    found = _votes((answer for person in people for answer in _potato_answers(person)), names, seed)
    if not found:
        where = f"{_POTATO_ANSWERS}/NAME/user_state.json"
        raise UserError(f"{folder} holds no Potato answers to tasks of this project; they lie in {where}.")
    return found


def _potato_text(task: LabelTask) -> str:
    def block(heading: str, text: str) -> str:
        return f"<p><b>{html.escape(heading)}</b><br>{html.escape(text).replace(chr(10), '<br>')}</p>"

    parts = [block(turn.speaker, turn.text) for turn in task.history]
    parts += ["<hr>", *(block(step, text) for step, text in (task.reasoning or {}).items())]
    return "".join([*parts, "<hr>", block("first reply", task.first), block("second reply", task.second)])


def _potato_answers(person: Path) -> Iterator[OutsideAnswer]:
    """What one person answered, of whom Potato keeps a folder."""
    state_file, old_file = person / "user_state.json", person / "annotated_instances.jsonl"
    if state_file.is_file():
        try:
            state = from_json(state_file.read_bytes(), dict[str, Any])
        except msgspec.MsgspecError as error:
            raise UserError(f"{state_file} is no answer file of Potato: {error}") from None
        times = state.get("instance_id_to_behavioral_data") or {}
        who = str(state.get("user_id") or person.name)
        for task, labels in (state.get("instance_id_to_label_to_value") or {}).items():
            spent = times.get(task) or {}
            milliseconds = spent.get("total_time_ms") if isinstance(spent, Mapping) else None
            seconds = None if milliseconds is None else milliseconds / 1000
            for question, said in _potato_choices(labels):
                yield OutsideAnswer(task, who, question, said, seconds=seconds)
    elif old_file.is_file():
        for row in read_rows(old_file, dict):
            for question, said in _potato_choices(row.get("label_annotations") or {}):
                yield OutsideAnswer(str(row.get("id")), person.name, question, said)


def _potato_choices(labels: Any) -> Iterator[tuple[str, str]]:
    """The chosen answers, from pairs or from nested dictionaries."""
    if isinstance(labels, Mapping):
        pairs = [({"schema": s, "name": n}, v) for s, inner in labels.items() for n, v in dict(inner).items()]
    else:
        pairs = [(entry[0], entry[1]) for entry in labels if len(entry) == 2]
    for label, value in pairs:
        if value not in (None, False, ""):
            yield str(label.get("schema")), str(label.get("name"))


def _outside_name(item: str, seed: int) -> tuple[str, bool]:
    """What an item is called outside, and whether its candidate is shown first there."""
    digest = hashlib.blake2b(f"{seed}\x1f{item}".encode(), digest_size=12, person=b"outside").digest()
    return digest[:10].hex(), digest[10] < 128


def _votes(answers: Iterable[OutsideAnswer], names: Iterable[str], seed: int) -> dict[str, list[Vote]]:
    """Answers as votes by item. Tasks of other projects, other questions and what is no answer are ignored."""
    known = {}
    for item in names:
        name, candidate_first = _outside_name(item, seed)
        known[name] = (item, candidate_first)
    found: dict[str, list[Vote]] = {}
    for one in answers:
        if one.task not in known or one.question not in QUESTIONS:
            continue
        item, candidate_first = known[one.task]
        value: Any = _answer(one.question, one.said, candidate_first)
        if value is not None:
            vote = Vote(annotator=one.person, question=one.question, value=value, at=one.at, seconds=one.seconds,
                        candidate_first=candidate_first)  # fmt: skip
            found.setdefault(item, []).append(vote)
    return found


def _answer(question: Question, said: str, candidate_first: bool) -> bool | str | None:
    """An answer of another tool; None when it is none.

    >>> _answer("emotion", "wrong", True), _answer("preference", "First", False), _answer("history", "?", True)
    (False, 'reference', None)
    """
    word = said.strip().lower()
    if question != "preference":
        return {"true": True, "right": True, "false": False, "wrong": False}.get(word)
    return preference_of(word, candidate_first) if word in CHOICES else None
