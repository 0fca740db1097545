"""Opening a judge by name: `hf:DIR`, `embedded`, `openai:MODEL`, `http://HOST:PORT`, or a PRM and an ORM together.

`embedded` and `hf:embedded` are the small model with the bundled judge adapter (`embedded:small` says the same, since
no other judge is bundled), `embedded:plain` is the model without it. The adapter was trained as one kind of judge; for
another kind the plain model answers.

PRM and ORM as one judge (`SeparateJudge`) are the baseline that the paper's unified judge is compared with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.models.shipped import adapter as shipped_adapter
from compeer.models.spec import adapter_weights, is_embedded, open_model
from compeer.models.weights import SMALL
from compeer.reward.case import Case
from compeer.reward.judge import Judge, Judgement, Orders
from compeer.reward.verdict import Kind

_IN_FLIGHT = 32  # requests to a chat server
FORMS = """Write one of
  hf:DIR_OR_NAME[+ADAPTER]     a transformers judge, as written by compeer reward train, or any chat model
  embedded                     the small model with the bundled judge adapter
  embedded:plain               the same model without the adapter
  embedded+ADAPTER             with another adapter: a .gguf file, or a folder saved by peft
  openai:MODEL                 any OpenAI-compatible server (--base-url or OPENAI_BASE_URL, OPENAI_API_KEY)
  http://HOST:PORT             a judge served by compeer reward serve
  PRM,ORM                      two of these: one judge for the steps, one for the replies"""


def open_judge(
    spec: str,
    *,
    kind: Kind | None = None,
    base_url: str | None = None,
    batch: int | None = None,
    device: str | None = None,
    explain: bool = False,
) -> Judge:
    """The judge that a spec names. Nothing is loaded or asked before its first judgement."""
    if "," in spec and not Path(spec.removeprefix("hf:")).exists():
        prm, _, orm = spec.partition(",")
        if kind not in (None, "unified") or "," in orm:
            raise UserError(f"{spec!r} does not name a judge. {FORMS}")
        options: dict[str, Any] = {"base_url": base_url, "batch": batch, "device": device, "explain": explain}
        return SeparateJudge(open_judge(prm, kind="prm", **options), open_judge(orm, kind="orm", **options))
    home, _, rest = spec.partition(":")
    if home in ("http", "https") and rest.startswith("//"):
        from compeer.reward.remote_judge import RemoteJudge

        return RemoteJudge(spec)
    if home == "hf" and rest:
        from compeer.reward.local_judge import LocalJudge

        if bundled := is_embedded(rest) and "+" not in rest:
            found = _bundled_adapter(rest, kind)
            model, adapter = "embedded:small", str(found) if found else ""
        else:
            model, _, adapter = rest.rpartition("+") if "+" in rest and not Path(rest).exists() else (rest, "", "")
        name = spec if bundled else None
        return LocalJudge(model, adapter or None, name=name, kind=kind, batch=batch, device=device, explain=explain)
    if is_embedded(spec):
        from compeer.models.embedded import Embedded
        from compeer.reward.chat_judge import ChatJudge
        from compeer.reward.local_judge import read_judge_file

        given = spec.partition("+")[2]
        weights = adapter_weights(Path(given)) if given else SMALL
        name = None if given else spec
        embedded = Embedded(given or _bundled_adapter(spec, kind), weights=weights, name=name, precise=True)
        if beside := embedded.adapter:
            kind = kind or read_judge_file(str(beside if beside.is_dir() else beside.parent)).kind
        return ChatJudge(embedded, kind or "unified", concurrency=embedded.slots, explain=explain)
    if home == "openai" and rest:
        from compeer.reward.chat_judge import ChatJudge

        server = open_model(spec, base_url=base_url, concurrency=_IN_FLIGHT)
        return ChatJudge(server, kind or "unified", concurrency=_IN_FLIGHT, explain=explain)
    raise UserError(f"{spec!r} does not name a judge. {FORMS}")


def _bundled_adapter(spec: str, kind: Kind | None) -> Path | None:
    """The bundled judge adapter, if it is of the requested kind."""
    from compeer.reward.local_judge import read_judge_file

    folder = None if spec.endswith(":plain") else shipped_adapter("judge")
    return folder if folder and kind in (None, read_judge_file(str(folder)).kind) else None


class SeparateJudge:
    """A PRM for the steps and an ORM for the pair. When one fails on a case, the other's verdicts are kept."""

    kind: Kind = "unified"

    def __init__(self, prm: Judge, orm: Judge) -> None:
        if (prm.kind, orm.kind) != ("prm", "orm"):
            raise UserError(
                f"Name a prm and an orm, in this order; {prm.name} is a {prm.kind} and {orm.name} a {orm.kind}."
            )
        self.prm, self.orm = prm, orm
        self.name = f"{prm.name},{orm.name}"

    async def identity(self) -> Mapping[str, Any]:
        prm, orm = await asyncio.gather(self.prm.identity(), self.orm.identity())
        return {"home": "separate", "kind": self.kind, "prm": dict(prm), "orm": dict(orm)}

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        steps, pairs = await asyncio.gather(self.prm.judge(cases, orders=orders), self.orm.judge(cases, orders=orders))
        return [_joined(*both) for both in zip(steps, pairs, strict=True)]

    async def close(self) -> None:
        await asyncio.gather(self.prm.close(), self.orm.close())


def _joined(steps: Judgement, pairs: Judgement) -> Judgement:
    failure = " ".join(dict.fromkeys(found.failure for found in (steps, pairs) if found.failure)) or None
    tokens = steps.tokens + pairs.tokens
    return msgspec.structs.replace(steps, pairs=pairs.pairs, failure=failure, tokens=tokens)
