"""Naming a model on the command line: `embedded`, `hf:DIR_OR_NAME[+ADAPTER]`, `openai:MODEL`."""

from __future__ import annotations

import os
from pathlib import Path

from compeer.models.request import Model, ModelError
from compeer.models.retry import Patience

FORMS = """Write one of
  embedded                     the small model that comes along
  embedded+ADAPTER.gguf        the same with an adapter
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
    if spec == "embedded" or (spec.startswith("embedded+") and spec != "embedded+"):
        from compeer.models.embedded import Embedded

        return Embedded(spec.partition("+")[2] or None, slots=slots or 4, context=context or 8192)
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
