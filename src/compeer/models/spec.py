"""Naming a model on the command line: `embedded`, `hf:DIR_OR_NAME[+ADAPTER]`, `openai:MODEL`.

`embedded` is the small model with the adapter in the package (`compeer.models.shipped`), in llama.cpp, and
`hf:embedded` is the same in transformers. `:plain` leaves the adapter out, `+ADAPTER` puts another in its place.
In the settings of a training `embedded` is a base, and a base has no adapter.
"""

from __future__ import annotations

import os
from pathlib import Path

from compeer.models.request import Model, ModelError, Patience
from compeer.models.shipped import Role
from compeer.models.shipped import adapter as shipped_adapter

PLAIN = "embedded:plain"
FORMS = """Write one of
  embedded                     the small default model, with its adapter
  embedded:plain               the same as it was published, untrained
  embedded+ADAPTER             with another adapter: a .gguf file, or a folder that peft has saved
  hf:DIR_OR_NAME[+ADAPTER]     a transformers model, with an optional LoRA adapter
  openai:MODEL                 any OpenAI-compatible server (--base-url or OPENAI_BASE_URL, OPENAI_API_KEY)"""


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

        given = spec.partition("+")[2]
        return Embedded(
            given or embedded_adapter(spec, "supporter"),
            name=None if given else spec,
            slots=slots or 4,
            context=context or 8192,
        )
    if home == "hf" and is_embedded(rest) and "+" not in rest:
        from compeer.models.local import Local

        shipped = embedded_adapter(rest, "supporter")
        return Local("embedded", str(shipped) if shipped else None, name=spec, batch=slots or 8)
    if home == "hf" and rest:
        from compeer.models.local import Local

        name, _, adapter = rest.rpartition("+") if "+" in rest and not Path(rest).exists() else (rest, "", "")
        return Local(name, adapter or None, batch=slots or 8)
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
    """Whether a spec, without `hf:`, names the embedded model.

    >>> [is_embedded(spec) for spec in ("embedded", "embedded:plain", "embedded+a.gguf", "embedded+", "embedded:x")]
    [True, True, True, False, False]
    """
    return spec in ("embedded", PLAIN) or (spec.startswith("embedded+") and spec != "embedded+")


def embedded_adapter(spec: str, role: Role) -> Path | None:
    """The adapter that `embedded` has in this role; none for `embedded:plain`, or where none lies here."""
    return None if spec == PLAIN else shipped_adapter(role)
