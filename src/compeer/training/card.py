"""The model card: what the model is, what it was made from, how, how good it is, and what it is not good for.

Written from the run's record, so it cannot say anything else than what was done. Figures that are not there are not
mentioned.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from compeer.config import dump_yaml
from compeer.models.weights import of_base
from compeer.training.run import Run


class CardText(msgspec.Struct, frozen=True, kw_only=True):
    """What the card says beyond the run's record."""

    title: str
    what: str  # one or two sentences
    use: str  # commands or code
    base: str
    languages: Sequence[str] = ()
    licence: str | None = None  # of the model, as hubs name it: cc-by-nc-4.0
    licences: Sequence[str] = ()  # of the data
    limits: Sequence[str] = ()
    tags: Sequence[str] = ()


def write_card(run: Run, about: CardText) -> None:
    """Write README.md into the run's folder and beside the model."""
    if run.main:
        text = card(run, about)
        for folder in (run.folder, run.model):
            (folder / "README.md").write_text(text, encoding="utf-8")
        if (run.folder / "curves.png").is_file():
            shutil.copyfile(run.folder / "curves.png", run.model / "curves.png")


def card(run: Run, about: CardText) -> str:
    record, last = run.record, run.record.sessions[-1]
    parts = [
        _header(about),
        f"# {about.title}",
        about.what,
        "## Use",
        about.use,
        "## How it was made",
        _list(
            {
                "Base model": about.base + _identity(record.base),
                "Judge": _identity(record.judge).strip(" ()") if record.judge else None,
                "Code": str(last.revision),
                "Packages": ", ".join(f"{name} {version}" for name, version in last.versions.items()),
                "Seed": record.seed,
                "Processes": last.processes,
                "Sessions": _sessions(run),
            }
        ),
        "## Data",
        _data(run),
        "Licences of the data: " + (", ".join(about.licences) or "not stated") + ". Labels and text of a model trained "
        "on them may be bound by these and by the base model's licence.",
        "## Results",
        _list(record.results) or "None measured.",
        "![curves](curves.png)" if (run.folder / "curves.png").is_file() else "",
        "## Limits",
        "\n".join(f"- {limit}" for limit in about.limits) or "- Not measured yet.",
        "## Configuration",
        "```yaml\n" + dump_yaml(record.config) + "```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _header(about: CardText) -> str:
    """The front matter that model hubs read."""
    values: dict[str, Any] = {"license": about.licence, "library_name": "transformers"}
    values["pipeline_tag"] = "text-generation"
    if of_base(about.base) is None:
        values["base_model"] = about.base
    values |= {"language": list(about.languages), "tags": ["compeer", *about.tags]}
    return "---\n" + dump_yaml({key: value for key, value in values.items() if value}) + "---"


def _data(run: Run) -> str:
    lines = ["| part | file | rows | sha256 |", "|---|---|---|---|"]
    for role, files in run.record.data.items():
        lines += [f"| {role} | {file.path} | {file.rows:,} | `{file.sha256}` |" for file in files]
    return "\n".join(lines)


def _sessions(run: Run) -> str:
    forced = [difference for session in run.record.sessions for difference in session.differences]
    told = str(len(run.record.sessions))
    return told + (f"; resumed in spite of: {'; '.join(forced)}" if forced else "")


def _identity(values: Mapping[str, Any] | None) -> str:
    told = ", ".join(f"{name} {value}" for name, value in (values or {}).items() if value is not None)
    return f" ({told})" if told else ""


def _list(values: Mapping[str, Any]) -> str:
    return "\n".join(
        f"- {name.replace('_', ' ')}: {_said(value)}" for name, value in values.items() if value is not None
    )


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(one)}" for name, one in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(map(_said, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if value > 9999 else str(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
