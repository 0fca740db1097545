"""Settings: a YAML file, `NAME=VALUE` overrides, and a typed object. The only place that reads a configuration.

    config = load("configs/reward/laptop.yaml", JudgeTraining, ["lora.r=8", "learning_rate=1e-5"])

Every training, build and bridge describes its settings as a msgspec Struct. What does not fit is refused with the name
of the file and of the field. Scientific notation without a dot (1e-5), which YAML takes for text, is read as a number.

The configurations of the repository are in the wheel too (`shipped`); `compeer config copy` writes them to a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from compeer.errors import UserError
from compeer.typed import from_plain

T = TypeVar("T")


def load(
    path: str | Path,
    kind: type[T],
    overrides: Sequence[str] = (),
    *,
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> T:
    """Typed settings from a YAML file. `prepare` may fill in presets before the types are checked."""
    values = override(read_yaml(path), overrides)
    return convert(prepare(values) if prepare else values, kind, path)


def shipped() -> dict[str, Path]:
    """The configurations that come with COMPEER: in the wheel inside the package, in a checkout in its own folder."""
    here = Path(__file__).parent
    folder = next((one for one in (here / "configs", here.parents[1] / "configs") if one.is_dir()), here)
    return {f"{path.parent.name}/{path.stem}": path for path in sorted(folder.glob("*/*.yaml"))}


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The settings of a YAML file as a plain dictionary."""
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        named, known, get = f"{Path(path).parent.name}/{Path(path).stem}", shipped(), ""
        if not Path(path).exists():
            get = f" Write it here: compeer config copy {named}"
            if named not in known:
                get = (
                    f" Configurations that come with COMPEER: {', '.join(known)}. compeer config copy writes them here."
                )
        raise UserError(f"The configuration {path} cannot be read: {error.strerror}.{get}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"The configuration {path} is not usable: {error}.") from None
    if not isinstance(values, dict):
        raise UserError(f"The configuration {path} is not usable: it must be a list of settings, `name: value`.")
    return values


def override(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of the settings with some replaced. A dot goes into a group; the value is YAML.

    >>> override({"judge": {"spec": "embedded"}}, ["judge.budget=30", "batch=8"])
    {'judge': {'spec': 'embedded', 'budget': 30}, 'batch': 8}
    """
    import yaml

    changed = dict(values)
    for one in overrides:
        name, equals, text = one.partition("=")
        if not equals or not name.strip():
            raise UserError(f"{one!r} is not a setting. Write NAME=VALUE, for example learning_rate=1e-5.")
        *groups, last = name.strip().split(".")
        place = changed
        for group in groups:
            inner = place.get(group)
            place[group] = place = dict(inner) if isinstance(inner, dict) else {}
        try:
            place[last] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(f"The value of {name!r} is not usable: {error}.") from None
    return changed


def convert(values: dict[str, Any], kind: type[T], source: str | Path) -> T:
    """Plain settings as a typed object. `source` names them in an error."""
    try:
        return from_plain(_numbers(values), kind, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"The configuration {source} is not usable: {error}.") from None


def dump_yaml(values: Any) -> str:
    """Settings as YAML text, in the order they were given."""
    import yaml

    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return text


def _numbers(value: Any) -> Any:
    """YAML 1.1 reads 1e-5 as text; here it is a number."""
    if isinstance(value, dict):
        return {name: _numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_numbers(inner) for inner in value]
    if isinstance(value, str) and "e" in value.lower() and value[:1] in "+-.0123456789" and value:
        try:
            return float(value)
        except ValueError:
            return value
    return value
