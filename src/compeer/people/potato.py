"""Potato: a project folder with its configuration and data, and the answers of its annotators back.

The folder is what `potato start` takes: `config.yaml`, `data/items.jsonl`, and for each annotator a folder under
`annotation_output`. Answers stand in `user_state.json` there (Potato 2), as pairs of {"schema", "name"} and a value for
each item; older versions write `annotated_instances.jsonl` with `label_annotations`. Both are read, both are written.

Potato shows an item's text as HTML, so all text is escaped here. A step is called right or wrong, since a value that
reads "False" may mean either the answer or that nothing was chosen.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from compeer.cer.item import QUESTIONS, Item, Question, Vote
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.people.label_studio import Blind, blind, keys, value_of
from compeer.people.labelling_queue import as_shown
from compeer.reasoning import STEPS
from compeer.typed import from_json

_ASKED: dict[Question, str] = {
    "history": "1. Is the history understood rightly?",
    "emotion": "2. Is the feeling read rightly?",
    "strategy": "3. Does the strategy fit now?",
    "preference": "4. Which reply is better?",
}
_OUTPUT = "annotation_output"


def write(folder: Path, items: Iterable[Item], seed: int, *, title: str, annotations: bool = True) -> int:
    """Write a Potato project; returns how many items. With `annotations` the votes that the items carry go along."""
    pairs = [(item, shown) for item in items if (shown := blind(item, seed)) is not None]
    (folder / "data").mkdir(parents=True, exist_ok=True)
    settings = yaml.safe_dump(_config(title), sort_keys=False, allow_unicode=True)
    (folder / "config.yaml").write_text(settings, encoding="utf-8")
    write_rows(
        folder / "data" / "items.jsonl", ({"id": shown.name, "text": _text(item, shown)} for item, shown in pairs)
    )
    people = dict.fromkeys(vote.annotator for item, _ in pairs for vote in item.votes) if annotations else {}
    for name in people:
        _write_answers(folder / _OUTPUT / _folder(name), name, pairs)
    return len(pairs)


def read(folder: Path, names: Iterable[str], seed: int) -> dict[str, list[Vote]]:
    """Votes by item from a Potato project's output."""
    output = folder / _OUTPUT if (folder / _OUTPUT).is_dir() else folder
    people = sorted(path for path in output.glob("*") if path.is_dir()) if output.is_dir() else []
    known = keys(names, seed)
    found: dict[str, list[Vote]] = {}
    for person in people:
        for task, labels, milliseconds, name in _answers(person):
            if task not in known:
                continue
            item, candidate_first = known[task]
            for question, said in labels:
                value = value_of(question, said, candidate_first)
                if value is not None:
                    vote = Vote(annotator=name, question=question, value=cast(Any, value),
                                candidate_first=candidate_first,
                                seconds=None if milliseconds is None else milliseconds / 1000)  # fmt: skip
                    found.setdefault(item, []).append(vote)
    if not found:
        raise UserError(
            f"{folder} holds no Potato answers to tasks of this project; they lie in {_OUTPUT}/NAME/user_state.json."
        )
    return found


def _config(title: str) -> dict[str, Any]:
    def scheme(question: Question) -> dict[str, Any]:
        labels = ["first", "second", "both", "neither"] if question == "preference" else ["right", "wrong"]
        return {
            "annotation_type": "radio",
            "name": question,
            "description": _ASKED[question],
            "labels": labels,
            "label_requirement": {"required": True},
        }

    return {
        "annotation_task_name": title,
        "task_dir": ".",
        "data_files": ["data/items.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "text"},
        "output_annotation_dir": _OUTPUT,
        "output_annotation_format": "jsonl",
        "assignment_strategy": "fixed_order",
        "max_annotations_per_item": 2,
        "user_config": {"allow_all_users": True, "users": []},
        "annotation_schemes": [scheme(question) for question in QUESTIONS],
    }


def _text(item: Item, shown: Blind) -> str:
    def block(heading: str, text: str) -> str:
        return f"<p><b>{html.escape(heading)}</b><br>{html.escape(text).replace(chr(10), '<br>')}</p>"

    parts = [block(turn.speaker, turn.text) for turn in item.history]
    parts += ["<hr>", *(block(step, shown.steps[step]) for step in STEPS if step in shown.steps)]
    return "".join([*parts, "<hr>", block("first reply", shown.first), block("second reply", shown.second)])


def _write_answers(folder: Path, name: str, pairs: Iterable[tuple[Item, Blind]]) -> None:
    order: list[str] = []
    labels: dict[str, list[Any]] = {}
    times: dict[str, dict[str, int]] = {}
    old: list[dict[str, Any]] = []
    for item, shown in pairs:
        cast_votes = [vote for vote in item.votes if vote.annotator == name]
        if not cast_votes:
            continue
        said = {vote.question: _word(vote, shown.candidate_first) for vote in cast_votes}
        order.append(shown.name)
        labels[shown.name] = [[{"schema": question, "name": word}, word] for question, word in said.items()]
        if cast_votes[0].seconds is not None:
            times[shown.name] = {"total_time_ms": round(1000 * cast_votes[0].seconds)}
        answers = {question: {word: word} for question, word in said.items()}
        old.append({"id": shown.name, "label_annotations": answers, "span_annotations": {}})
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "user_id": name,
        "instance_id_ordering": order,
        "instance_id_to_label_to_value": labels,
        "instance_id_to_behavioral_data": times,
    }
    (folder / "user_state.json").write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    write_rows(folder / "annotated_instances.jsonl", old)


def _word(vote: Vote, candidate_first: bool) -> str:
    if isinstance(vote.value, bool):
        return "right" if vote.value else "wrong"
    return str(as_shown(vote.value, candidate_first))


def _answers(person: Path) -> Iterator[tuple[str, list[tuple[Question, str]], float | None, str]]:
    """For each item a person answered: its name, the answers, the time in milliseconds, and the person."""
    state_file, old_file = person / "user_state.json", person / "annotated_instances.jsonl"
    if state_file.is_file():
        try:
            state = from_json(state_file.read_bytes(), dict[str, Any])
        except msgspec.MsgspecError as error:
            raise UserError(f"{state_file} is no answer file of Potato: {error}") from None
        times = state.get("instance_id_to_behavioral_data") or {}
        for task, labels in (state.get("instance_id_to_label_to_value") or {}).items():
            spent = times.get(task) or {}
            milliseconds = spent.get("total_time_ms") if isinstance(spent, Mapping) else None
            yield task, list(_chosen(labels)), milliseconds, str(state.get("user_id") or person.name)
    elif old_file.is_file():
        for row in read_rows(old_file, dict):
            yield str(row.get("id")), list(_chosen(row.get("label_annotations") or {})), None, person.name


def _chosen(labels: Any) -> Iterator[tuple[Question, str]]:
    """The chosen answers, from pairs or from nested dictionaries."""
    if isinstance(labels, Mapping):
        pairs = [({"schema": s, "name": n}, v) for s, inner in labels.items() for n, v in dict(inner).items()]
    else:
        pairs = [(entry[0], entry[1]) for entry in labels if len(entry) == 2]
    for label, value in pairs:
        if label.get("schema") in QUESTIONS and value not in (None, False, ""):
            yield label["schema"], str(label.get("name"))


def _folder(name: str) -> str:
    """A name as a folder. Letters, digits and the like stay; a name that must be changed gets a number of its own."""
    safe = "".join(letter if letter.isalnum() or letter in "-_@." else "_" for letter in name).lstrip(".")
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
