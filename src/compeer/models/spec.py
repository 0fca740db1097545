"""Naming a model on the command line: `embedded`, `gguf:PATH`, `hf:DIR_OR_NAME`, `openai:MODEL`, with `+ADAPTER`.

`embedded` is the 1.5B base with the supporter in the package (`compeer.models.shipped`), in llama.cpp. Where the
base's weights are not here the small model answers in its place, and says so. `embedded:small` is always the small
one. `:plain` leaves the adapter out, `+ADAPTER` puts another in its place, on the base that it was trained for.
`hf:embedded` and `hf:embedded:small` are the same in transformers. In the settings of a training these names are bases,
and a base has no adapter.
"""

from __future__ import annotations

import os
from pathlib import Path

from compeer.models.lora_gguf import fields
from compeer.models.request import Model, ModelError, Patience
from compeer.models.shipped import Role, base_of
from compeer.models.shipped import adapter as shipped_adapter
from compeer.models.weights import BASE, SMALL, Weights, find, of_base, published
from compeer.reasoning.prompt import Length

FORMS = """Write one of
  embedded                     the 1.5B supporter, or the small one where its weights are not here
  embedded:small               the small supporter (SmolLM2-135M)
  embedded:plain               the 1.5B base as it was published, untrained; also embedded:small:plain
  embedded+ADAPTER             with another adapter: a .gguf file, or a folder that peft has saved
  gguf:PATH[+ADAPTER]          any GGUF file, with its own chat template
  hf:DIR_OR_NAME[+ADAPTER]     a transformers model, with an optional LoRA adapter
  openai:MODEL                 any OpenAI-compatible server (--base-url or OPENAI_BASE_URL, OPENAI_API_KEY)"""


#: what other adapters of the embedded model are for, besides the supporter's thinking
OTHERS: tuple[Role, ...] = ("replies", "reader")


def open_model(
    spec: str | None = None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    concurrency: int = 64,
    patience: Patience = Patience(),
    slots: int | None = None,
    context: int | None = None,
) -> Model:
    """The model a spec names; without one $COMPEER_MODEL, else the embedded default. Weights load on first use.

    `slots`: how many answers a model in this process writes side by side; `context`: tokens that the embedded one's
    slots share.
    """
    spec = spec or os.environ.get("COMPEER_MODEL") or "embedded"
    home, _, rest = spec.partition(":")
    if is_embedded(spec):
        from compeer.models.embedded import Embedded

        plain, _, given = spec.partition("+")
        weights = adapter_weights(Path(given), plain) if given else embedded_weights(spec)
        stands_in = not given and weights == SMALL and of_base(plain) == BASE
        return Embedded(
            given or embedded_adapter(spec, "supporter"),
            None if given else {role: path for role in OTHERS if (path := embedded_adapter(spec, role))},
            weights=weights,
            name=None if given else spec.replace("embedded", "embedded:small") if stands_in else spec,
            slots=slots or 4,
            context=context or 8192,
            stands_in=stands_in,
        )
    if home == "gguf" and rest:
        from compeer.models.embedded import Embedded

        name, adapter = _split_adapter(rest)
        file = Path(name).expanduser()
        return Embedded(adapter or None, weights=file, slots=slots or 4, context=context or 8192)
    if home == "hf" and rest:
        from compeer.models.local import Local

        if not is_embedded(rest) or "+" in rest:
            name, adapter = _split_adapter(rest)
            return Local(name, adapter or None, batch=slots or 8)
        base, shipped = embedded_weights(rest).spec.removesuffix(":plain"), embedded_adapter(rest, "supporter")
        return Local(base, str(shipped) if shipped else None, name=spec, batch=slots or 8)
    if home == "openai" and rest:
        from compeer.models.endpoint import Endpoint

        address = base_url or os.environ.get("OPENAI_BASE_URL")
        if not address:
            raise ModelError(
                f"{spec} needs the address of its server: --base-url http://HOST:PORT/v1, or OPENAI_BASE_URL."
            )
        key = api_key or os.environ.get("OPENAI_API_KEY")
        return Endpoint(rest, address, key, concurrency=concurrency, patience=patience)
    raise ModelError(f"{spec!r} names no model. {FORMS}")


def is_embedded(spec: str) -> bool:
    """Whether a spec, without `hf:`, names an embedded model.

    >>> [is_embedded(spec) for spec in ("embedded", "embedded:small", "embedded+a.gguf", "embedded+", "embedded:x")]
    [True, True, True, False, False]
    """
    plain, plus, given = spec.partition("+")
    return of_base(plain) is not None and bool(given) == bool(plus)


def embedded_weights(spec: str) -> Weights:
    """The weights of an embedded model; those of the small one where the large ones are not here."""
    weights = of_base(spec) or SMALL
    try:
        return weights if weights == SMALL or find(weights) is not None else SMALL
    except ModelError:  # a damaged file, a path that is wrong: loading says so
        return weights


def embedded_adapter(spec: str, role: Role) -> Path | None:
    """The adapter that an embedded model has in this role; none for `:plain`, or where none lies here."""
    return None if spec.endswith(":plain") else shipped_adapter(role, embedded_weights(spec))


def default_prompt(spec: str) -> Length:
    """The instruction that a model needs: the brief one if it was trained on the contract, as shipped adapters were.

    >>> default_prompt("embedded:small"), default_prompt("hf:embedded:small"), default_prompt("openai:gpt")
    ('brief', 'brief', 'full')
    """
    rest = spec.removeprefix("hf:")
    if rest.startswith("gguf:"):
        return "brief" if _split_adapter(rest.removeprefix("gguf:"))[1] else "full"
    if not is_embedded(rest):
        return "full"
    if "+" in rest or embedded_weights(rest) == SMALL:
        return "brief"
    return "brief" if embedded_adapter(rest, "supporter") else "full"


def thinks_by_adapter(name: str) -> bool:
    """Whether a model is the 1.5B base with the shipped adapter: it thinks with the adapter, and without thinking the
    base replies, with an adapter for replies where there is one, because blind readers like these replies better."""
    return name == "embedded" and embedded_weights(name) == BASE and embedded_adapter(name, "supporter") is not None


def is_small(name: str) -> bool:
    """Whether a model is the small embedded one, by its name: it works everywhere, and often makes no sense.

    >>> [is_small(name) for name in ("embedded:small", "hf:embedded:small:plain", "embedded", "openai:small")]
    [True, True, False, False]
    """
    return name.removeprefix("hf:").startswith("embedded:small")


def adapter_weights(adapter: Path, plain: str = "embedded:small") -> Weights:
    """The weights that an adapter is for, as far as it tells; else those that the spec names."""
    if adapter.is_dir():
        told = of_base(base_of(adapter).name)
    elif adapter.is_file() and adapter.stat().st_size > 24 and published():
        kind = fields(adapter, {"general.architecture"}).get("general.architecture")
        told = {"llama": SMALL, "qwen2": BASE}.get(str(kind))
    else:
        told = None
    return told or (SMALL if plain != "embedded" else embedded_weights(plain))


def _split_adapter(rest: str) -> tuple[str, str]:
    """A path and the adapter behind its last plus, if it is not the path's own."""
    if "+" not in rest or Path(rest).expanduser().exists():
        return rest, ""
    name, _, adapter = rest.rpartition("+")
    return name, adapter
