"""What tells one judge from another: hashes of its files and of the prompts it is asked with.

Two folders with the same weights, tokenizer and template are the same judge wherever they lie, so paths, dates and
what a training left beside the weights do not count.
"""

from __future__ import annotations

import hashlib
from fnmatch import fnmatch
from pathlib import Path

import msgspec

from compeer.cer.item import Said
from compeer.models.weights import locate
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case
from compeer.reward.conversation import messages, threads
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Kind

#: the files of a checkpoint that decide about its answers
_DECIDING = (
    "*.safetensors",
    "pytorch_model*.bin",
    "adapter_model.bin",
    "*.gguf",
    "config.json",
    "adapter_config.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template*",
    "*processor_config.json",
)
_PLACES = ("base_model_name_or_path", "_name_or_path", "transformers_version", "peft_version")  # say where, not what
_known: dict[tuple[str, int, int], str] = {}


def prompts_sha256(kind: Kind) -> str:
    """A hash of every word a judge of this kind is asked with, in both languages."""
    asked = []
    languages: tuple[Language, ...] = ("en", "zh")
    for language in languages:
        case = Case(
            id="",
            language=language,
            history=(Said("seeker", "a"), Said("supporter", "b", ("c.png",))),
            steps=("d", "e", "f"),
            reply="g",
            reference="h",
            complete=True,
            left_out=1,
        )
        words = [*STEP_WORDS[language].values(), *PAIR_WORDS[language].values()]
        asked.append([words, [messages(thread, ["i"] * 4) for thread in threads(case, kind, candidate_first=True)]])
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()


def model_sha256(model: str) -> str:
    """A hash of the files of a checkpoint: a folder, a file, `embedded`, or a hub name that lies in its cache."""
    where = locate() if model == "embedded" else Path(model)
    if not where.exists():
        found = _in_hub_cache(model)
        if found is None:
            return "unknown: " + model
        where = found
    if where.is_file():
        return file_sha256(where)
    files = sorted(file for file in where.iterdir() if any(fnmatch(file.name, form) for form in _DECIDING))
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.name} {file_sha256(file)}\n".encode())
    return whole.hexdigest()


def file_sha256(file: Path) -> str:
    """The hash of a file, computed once as long as the file does not change."""
    stat = file.stat()
    state = (str(file), stat.st_size, stat.st_mtime_ns)
    if state not in _known:
        if file.suffix == ".json":
            _known[state] = hashlib.sha256(_without_places(file.read_bytes())).hexdigest()
        else:
            with file.open("rb") as opened:
                _known[state] = hashlib.file_digest(opened, "sha256").hexdigest()
    return _known[state]


def _without_places(data: bytes) -> bytes:
    try:
        settings = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data
    if not isinstance(settings, dict) or not any(name in settings for name in _PLACES):
        return data
    return msgspec.json.encode({name: settings[name] for name in settings if name not in _PLACES}, order="sorted")


def _in_hub_cache(name: str) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(name, "config.json")
    except Exception:  # no such package, or a name that cannot be one
        return None
    return Path(found).parent if isinstance(found, str) else None
