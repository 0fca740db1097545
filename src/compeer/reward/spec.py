"""Naming a judge on the command line: `hf:DIR`, `embedded`, `openai:MODEL`, `http://HOST:PORT`, or two of them.

`embedded` and `hf:embedded` are the small model with the judge's adapter that comes along, `embedded:plain` the same
without. The adapter was trained as one kind of judge; where another kind is asked for, the plain model answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compeer.errors import UserError
from compeer.models.request import Patience
from compeer.models.spec import embedded_adapter, is_embedded, open_model
from compeer.reward.judge import Judge
from compeer.reward.verdict import Kind

FORMS = """Write one of
  hf:DIR_OR_NAME[+ADAPTER]     a transformers judge, as compeer reward train writes it, or any chat model
  embedded                     the small model with the judge's adapter that comes along
  embedded:plain               the same as it was published, untrained
  embedded+ADAPTER             with another adapter: a .gguf file, or a folder that peft has saved
  openai:MODEL                 any OpenAI-compatible server (--base-url or OPENAI_BASE_URL, OPENAI_API_KEY)
  http://HOST:PORT             a judge served by compeer reward serve
  PRM,ORM                      two of these: one judge for the steps, one for the replies"""


def open_judge(
    spec: str,
    *,
    kind: Kind | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    concurrency: int | None = None,
    batch: int | None = None,
    device: str | None = None,
    max_length: int | None = None,
    explain: bool = False,
    patience: Patience = Patience(),
) -> Judge:
    """The judge a spec names. Nothing is loaded or asked before it judges."""
    options: dict[str, Any] = {
        "base_url": base_url,
        "api_key": api_key,
        "concurrency": concurrency,
        "batch": batch,
        "device": device,
        "max_length": max_length,
        "explain": explain,
        "patience": patience,
    }
    if "," in spec and not Path(spec.removeprefix("hf:")).exists():
        prm, _, orm = spec.partition(",")
        if kind not in (None, "unified") or "," in orm:
            raise UserError(f"{spec!r} names no judge. {FORMS}")
        from compeer.reward.judge import SeparateJudge

        return SeparateJudge(open_judge(prm, kind="prm", **options), open_judge(orm, kind="orm", **options))
    home, _, rest = spec.partition(":")
    if home in ("http", "https") and rest.startswith("//"):
        from compeer.reward.remote_judge import HttpJudge

        return HttpJudge(spec, api_key)
    if home == "hf" and rest:
        from compeer.reward.local_judge import LocalJudge

        if shipped := is_embedded(rest) and "+" not in rest:
            found = _shipped(rest, kind)
            model, adapter = "embedded", str(found) if found else ""
        else:
            model, _, adapter = rest.rpartition("+") if "+" in rest and not Path(rest).exists() else (rest, "", "")
        return LocalJudge(
            model,
            adapter or None,
            name=spec if shipped else None,
            kind=kind,
            batch=batch,
            device=device,
            max_length=max_length,
            explain=explain,
        )
    if is_embedded(spec):
        from compeer.models.embedded import Embedded
        from compeer.reward.chat_judge import AskedJudge
        from compeer.reward.local_judge import read_judge_file

        given = spec.partition("+")[2]
        embedded = Embedded(given or _shipped(spec, kind), name=None if given else spec, precise=True)
        if beside := embedded.adapter:
            kind = kind or read_judge_file(str(beside if beside.is_dir() else beside.parent)).kind
        return AskedJudge(embedded, kind or "unified", concurrency=concurrency or embedded.slots, explain=explain)
    if home == "openai" and rest:
        from compeer.reward.chat_judge import AskedJudge

        asked = concurrency or 32
        server = open_model(spec, base_url=base_url, api_key=api_key, concurrency=asked, patience=patience)
        return AskedJudge(server, kind or "unified", concurrency=asked, explain=explain)
    raise UserError(f"{spec!r} names no judge. {FORMS}")


def _shipped(spec: str, kind: Kind | None) -> Path | None:
    """The judge's adapter that comes along, when it is of the kind that is asked for."""
    from compeer.reward.local_judge import read_judge_file

    folder = embedded_adapter(spec, "judge")
    return folder if folder and kind in (None, read_judge_file(str(folder)).kind) else None
