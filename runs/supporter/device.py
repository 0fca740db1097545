"""What runs on the GPU machine: de-quantise the base, train LoRA adapters, sample, and read next-word probabilities.

    python device.py dequantise GGUF TOKENIZER OUT [SIZE]
    python device.py train JOB.json     {"base", "rows", "out", "rank", "rate", "epochs", "batch", "seed", "save_at"}
    python device.py sample JOB.json    {"engine", "base", "sets": [{"name", "prompts", "most", "adapter"}], "out"}
    python device.py prefer JOB.json    {"base", "pairs", "rows", "out", "beta", "likelihood", …}: DPO, rows beside it
    python device.py score JOB.json     {"base", "adapter", "prompts": […], "answers", "out"}
    python device.py judge JOB.json     {"base", "adapter", "cases": […], "out"}: verdicts turn by turn

Every job may have `seconds`: it stops itself 20 s before they are over (`spare`), with what is there saved. `sample`
appends to `out`/NAME.jsonl after every batch and, started again, leaves out what is there. A set whose adapter is still
in training comes later; one whose training failed (`adapter`.failed) is left out. `engine`: `vllm`, or `hf` where there
is none (a regular expression in a prompt is then not kept). `remote.py` says when what runs.

It needs torch, transformers, peft, and the `gguf` package beside it, and nothing of compeer.
Rows are {"messages": […], "answer": text}, or {"messages": […]} with several assistant turns marked `"learn": true`;
prompts are {"id", "messages", "temperature", "n", "prefix", "regex"}; what else stands in them comes back with the
output, `n` outputs have the ids ID~0, ID~1 and so on. Everything is ChatML.

Why not the package's own trainer: a vocabulary of 152,000 words makes the loss the largest part of a step, and half of
the tokens are prompt. Here the head sees learnt tokens only, rows of like length stand together, and there is no
attention mask (padding stands behind, where a causal model cannot see it), which also avoids the losses that were not
numbers. Measured on an H200 beside plain transformers: see README.md.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

START, END = "<|im_start|>", "<|im_end|>"


def say(*words: object) -> None:
    print(f"[{time.strftime('%H:%M:%S')}]", *words, flush=True)


def rows_of(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines() if line.strip()]


# --- the base ------------------------------------------------------------------------------------------------------

NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip


def dequantise(file: str, tokenizer: str, out: str, size: str = "0") -> None:
    """The GGUF file as a folder that transformers opens, in bfloat16.

    With `size`, the length of the whole file in bytes, the file may still be arriving: `file`.at says how many bytes
    are there, and each tensor is worked out as soon as its last byte is.
    """
    import shutil
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    import torch
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors.torch import save_file

    def arrived() -> int:
        mark = Path(f"{file}.at")
        return int(mark.read_text() or 0) if int(size) and mark.exists() else 1 << 60

    while int(size) and (not Path(f"{file}.at").exists() or arrived() < min(40_000_000, int(size))):
        time.sleep(0.2)
    reader = GGUFReader(file)

    def value(key: str) -> Any:
        return reader.fields[key].contents()

    def tensor(one: Any) -> tuple[str, torch.Tensor]:
        name = one.name
        if name.startswith("blk."):
            _, layer, rest = name.split(".", 2)
            part, kind = rest.rsplit(".", 1)
            name = f"model.layers.{layer}.{NAMES[part]}.{kind}"
        else:
            name = {
                "token_embd.weight": "model.embed_tokens.weight",
                "output_norm.weight": "model.norm.weight",
                "output.weight": "lm_head.weight",
            }[name]
        while arrived() < one.data_offset + one.n_bytes:
            time.sleep(0.1)
        numbers = dequantize(one.data, one.tensor_type).astype(np.float32)
        return name, torch.from_numpy(numbers).to(torch.bfloat16).contiguous()

    with ThreadPoolExecutor(12) as pool:
        tensors = dict(pool.map(tensor, sorted(reader.tensors, key=lambda one: one.data_offset)))
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
        "hidden_size": int(value("qwen2.embedding_length")),
        "intermediate_size": int(value("qwen2.feed_forward_length")),
        "num_hidden_layers": int(value("qwen2.block_count")),
        "num_attention_heads": int(value("qwen2.attention.head_count")),
        "num_key_value_heads": int(value("qwen2.attention.head_count_kv")),
        "max_position_embeddings": 32768,
        "rms_norm_eps": float(value("qwen2.attention.layer_norm_rms_epsilon")),
        "rope_theta": float(value("qwen2.rope.freq_base")),
        "vocab_size": tensors["model.embed_tokens.weight"].shape[0],
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "bos_token_id": None,
        "eos_token_id": int(value("tokenizer.ggml.eos_token_id")),
        "use_sliding_window": False,
    }
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
    for name in Path(tokenizer).iterdir():
        if name.is_file():
            shutil.copyfile(name, folder / name.name)
    (folder / "done").touch()
    say("de-quantised", sum(one.numel() for one in tensors.values()), "parameters")


def open_base(base: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16, attn_implementation="sdpa").to(device)
    return model.eval(), tokenizer


def merged(model: Any, adapter: str | None) -> Any:
    """The base with an adapter merged in."""
    if not adapter:
        return model
    from peft import PeftModel

    return PeftModel.from_pretrained(model, adapter).merge_and_unload().eval()


class Clock:
    """The time of a job: `over` once what comes next (`ahead` seconds) would not end in time."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.began = time.time()
        self.limit = job.get("seconds", float("inf")) - job.get("spare", 20)

    def taken(self) -> float:
        return time.time() - self.began

    def over(self, ahead: float = 0.0) -> bool:
        return self.taken() + ahead >= self.limit


# --- tokens --------------------------------------------------------------------------------------------------------


def rendered(messages: list[dict[str, Any]], prefix: str = "", ask: bool = True) -> list[tuple[str, bool]]:
    """ChatML in pieces, each with whether it is learnt."""
    pieces = []
    for one in messages:
        pieces.append((f"{START}{one['role']}\n", False))
        pieces.append((f"{one['content']}{END}", bool(one.get("learn"))))
        pieces.append(("\n", False))
    if ask:
        pieces.append((f"{START}assistant\n{prefix}", False))
    return pieces


def encoded(pieces: list[tuple[str, bool]], tokenizer: Any) -> tuple[list[int], list[bool]]:
    ids: list[int] = []
    learnt: list[bool] = []
    for text, learn in pieces:
        found = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids += found
        learnt += [learn] * len(found)
    return ids, learnt


# --- training ------------------------------------------------------------------------------------------------------


def train(job: dict[str, Any]) -> None:
    """LoRA on all linear layers; rows of like length together, the loss over learnt tokens only."""
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model

    clock, seed = Clock(job), job.get("seed", 0)
    random.seed(seed)
    torch.manual_seed(seed)
    model, tokenizer = open_base(job["base"])
    device = model.device
    if job.get("start"):
        model = PeftModel.from_pretrained(model, job["start"], is_trainable=True)
    else:
        rank = job.get("rank", 16)
        model = get_peft_model(
            model,
            LoraConfig(r=rank, lora_alpha=job.get("alpha", 2 * rank), lora_dropout=job.get("dropout", 0.05),
                       target_modules="all-linear", task_type="CAUSAL_LM"),
        )  # fmt: skip
    for module in model.modules():
        if hasattr(
            module, "cast_input_dtype_enabled"
        ):  # autocast sees to it; a copy in float32 costs a third of a step
            module.cast_input_dtype_enabled = False
    model.train()
    weights = [one for one in model.parameters() if one.requires_grad]
    rows = []
    for row in rows_of(job["rows"]):
        messages = (
            [*row["messages"], {"role": "assistant", "content": row["answer"], "learn": True}]
            if "answer" in row
            else row["messages"]
        )
        ids, learnt = encoded(rendered(messages, ask=False), tokenizer)
        if len(ids) <= job.get("longest", 1600):
            rows.append((ids, learnt, row.get("weight", 1.0)))
    epochs, batch, budget = job.get("epochs", 2), job.get("batch", 32), job.get("tokens", 12000)
    steps = math.ceil(epochs * len(rows) / batch)
    rate, warm = job.get("rate", 5e-5), max(1, int(0.06 * steps))
    optimiser = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0, betas=(0.9, 0.98))
    order: list[int] = []
    while len(order) < steps * batch:
        one = list(range(len(rows)))
        random.shuffle(one)
        for start in range(0, len(one), batch * 8):  # like lengths together, among eight batches
            window = sorted(one[start : start + batch * 8], key=lambda at: len(rows[at][0]))
            chunks = [window[at : at + batch] for at in range(0, len(window), batch)]
            random.shuffle(chunks)
            order += [at for chunk in chunks for at in chunk]
    say("rows", len(rows), "steps", steps, "tokens", sum(len(row[0]) for row in rows))
    began, seen, skipped, told = time.time(), 0, 0, 0.0
    saves = {max(1, int(share * steps)): share for share in job.get("save_at", [])}
    core = model.base_model.model
    waited = clock.taken()  # the rate falls with the steps or with the time, whichever is nearer its end
    step = 0
    for step in range(steps):
        done = max(step / steps, (clock.taken() - waited) / max(1.0, clock.limit - waited))
        if done >= 1:
            say("out of time after", step, "steps")
            break
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / warm) * max(0.05, 0.5 * (1 + math.cos(math.pi * done)))
        chosen = sorted((rows[at] for at in order[step * batch : (step + 1) * batch]), key=lambda row: len(row[0]))
        total = sum(sum(row[1]) * row[2] for row in chosen)
        micro: list[list[Any]] = [[]]
        for row in chosen:
            if micro[-1] and (len(micro[-1]) + 1) * len(row[0]) > budget:
                micro.append([])
            micro[-1].append(row)
        told = 0.0
        for part in micro:
            longest = max(len(row[0]) for row in part)
            ids = torch.full((len(part), longest), tokenizer.pad_token_id)
            mark = torch.zeros((len(part), longest), dtype=torch.bool)
            weight = torch.zeros((len(part), longest))
            for at, (tokens, learnt, scale) in enumerate(part):
                ids[at, : len(tokens)] = torch.tensor(tokens)
                mark[at, : len(tokens)] = torch.tensor(learnt)
                weight[at, : len(tokens)] = scale
            ids, mark, weight = ids.to(device), mark.to(device), weight.to(device)
            with torch.autocast(device.type, torch.bfloat16):
                hidden = core.model(input_ids=ids, use_cache=False).last_hidden_state
                place = mark[:, 1:]
                logits = core.lm_head(hidden[:, :-1][place])
            loss = torch.nn.functional.cross_entropy(logits.float(), ids[:, 1:][place], reduction="none")
            loss = (loss * weight[:, 1:][place]).sum() / total
            loss.backward()
            told += loss.item()
            seen += int(sum(len(row[0]) for row in part))
        norm = torch.nn.utils.clip_grad_norm_(weights, 1.0)
        if math.isfinite(float(norm)):
            optimiser.step()
        else:
            skipped += 1
        optimiser.zero_grad(set_to_none=True)
        if step % 10 == 0 or step + 1 == steps:
            say(f"step {step + 1}/{steps} loss {told:.4f} {seen / (time.time() - began):.0f} tokens/s")
        if step + 1 in saves:
            save(model, f"{job['out']}-{saves[step + 1]:g}", {**job, "step": step + 1, "steps": steps})
    numbers = {"rows_used": len(rows), "not_finite": skipped, "last_loss": told, "step": step + 1, "steps": steps}
    save(model, job["out"], {**job, **numbers, "seconds_taken": round(time.time() - began, 1)})


def save(model: Any, out: str, job: dict[str, Any]) -> None:
    """The adapter in bfloat16 (half the size, and what is shipped) with its record; the folder is there at once."""
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    folder = Path(f"{out}.part")
    model.save_pretrained(folder)
    file = folder / "adapter_model.safetensors"
    tensors = {name: one.to(torch.bfloat16).contiguous() for name, one in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    (folder / "job.json").write_text(json.dumps(job, indent=1), "utf-8")
    shutil.rmtree(out, ignore_errors=True)
    folder.rename(out)
    say("saved", out)


# --- preferences ----------------------------------------------------------------------------------------------------


def log_likelihoods(core: Any, rows: list[tuple[list[int], list[bool]]], pad: int, device: Any) -> Any:
    """The sum of the log-probabilities of the learnt tokens of each row."""
    import torch

    longest = max(len(row[0]) for row in rows)
    ids = torch.full((len(rows), longest), pad)
    mark = torch.zeros((len(rows), longest), dtype=torch.bool)
    for at, (tokens, learnt) in enumerate(rows):
        ids[at, : len(tokens)] = torch.tensor(tokens)
        mark[at, : len(tokens)] = torch.tensor(learnt)
    ids, place = ids.to(device), mark[:, 1:].to(device)
    with torch.autocast(device.type, torch.bfloat16):
        hidden = core.model(input_ids=ids, use_cache=False).last_hidden_state
        logits = core.lm_head(hidden[:, :-1][place])
    told = -torch.nn.functional.cross_entropy(logits.float(), ids[:, 1:][place], reduction="none")
    owner = torch.arange(len(rows), device=device)[:, None].expand_as(place)[place]
    return torch.zeros(len(rows), device=device).index_add(0, owner, told)


def prefer(job: dict[str, Any]) -> None:
    """Direct preference optimisation of a LoRA from the base, with the likelihood of the chosen answer beside it, and
    with further rows to learn as they are (`rows`) in every step.

    loss = -log sigmoid(beta ((chosen - rejected) - (the same under the base))) - likelihood / length of chosen
    The base's values are taken before the first step, when the LoRA still changes nothing.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    clock, seed = Clock(job), job.get("seed", 0)
    random.seed(seed)
    torch.manual_seed(seed)
    model, tokenizer = open_base(job["base"])
    rank = job.get("rank", 8)
    model = get_peft_model(
        model,
        LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    for module in model.modules():
        if hasattr(module, "cast_input_dtype_enabled"):
            module.cast_input_dtype_enabled = False
    core, device, pad = model.base_model.model, model.device, tokenizer.pad_token_id
    weights = [one for one in model.parameters() if one.requires_grad]

    def encode(messages: list[dict[str, Any]], answer: str) -> tuple[list[int], list[bool]]:
        whole = [*messages, {"role": "assistant", "content": answer, "learn": True}]
        return encoded(rendered(whole, ask=False), tokenizer)

    pairs = []
    for row in rows_of(job["pairs"]):
        one = [encode(row["messages"], row[side]) for side in ("chosen", "rejected")]
        if max(len(ids) for ids, _ in one) <= job.get("longest", 1200):
            pairs.append(one)
    rows = [encode(row["messages"], row["answer"]) for row in rows_of(job["rows"])] if job.get("rows") else []
    micro = job.get("micro", 8)
    pairs.sort(key=lambda one: len(one[0][0]))
    base: list[Any] = []
    with torch.no_grad():
        for at in range(0, len(pairs), micro * 2):
            part = pairs[at : at + micro * 2]
            base.append(log_likelihoods(core, [side for one in part for side in one], pad, device).view(-1, 2))
    reference = torch.cat(base)
    epochs, batch, rate = job.get("epochs", 1), job.get("batch", 16), job.get("rate", 5e-5)
    steps = math.ceil(epochs * len(pairs) / batch)
    few = math.ceil(job.get("row_epochs", 1) * len(rows) / steps) if rows else 0
    order = [at for _ in range(math.ceil(epochs) + 1) for at in random.sample(range(len(pairs)), len(pairs))]
    others = [at for _ in range(9) for at in random.sample(range(len(rows)), len(rows))]
    optimiser = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0, betas=(0.9, 0.98))
    beta, likelihood = job.get("beta", 0.1), job.get("likelihood", 0.2)
    say("pairs", len(pairs), "rows", len(rows), "steps", steps, "rows a step", few, f"{clock.taken():.0f} s")
    model.train()
    began, waited, step, skipped = time.time(), clock.taken(), 0, 0
    for step in range(steps):
        done = max(step / steps, (clock.taken() - waited) / max(1.0, clock.limit - waited))
        if done >= 1:
            say("out of time after", step, "steps")
            break
        for group in optimiser.param_groups:
            group["lr"] = (
                rate * min(1.0, (step + 1) / max(1, 0.08 * steps)) * max(0.1, 0.5 * (1 + math.cos(math.pi * done)))
            )
        chosen = sorted(order[step * batch : (step + 1) * batch])
        told = {"margin": 0.0, "right": 0.0, "loss": 0.0, "rows": 0.0}
        for at in range(0, len(chosen), micro):
            part = chosen[at : at + micro]
            values = log_likelihoods(core, [side for one in part for side in pairs[one]], pad, device).view(-1, 2)
            gap = (values - reference[part])[:, 0] - (values - reference[part])[:, 1]
            lengths = torch.tensor([float(sum(pairs[one][0][1])) for one in part], device=device)
            loss = -torch.nn.functional.logsigmoid(beta * gap) - likelihood * values[:, 0] / lengths
            (loss.sum() / len(chosen)).backward()
            told["margin"] += float(gap.sum()) / len(chosen)
            told["right"] += float((gap > 0).sum()) / len(chosen)
            told["loss"] += float(loss.sum()) / len(chosen)
        extra = sorted((rows[at] for at in others[step * few : (step + 1) * few]), key=lambda row: len(row[0]))
        for at in range(0, len(extra), micro * 2):
            group_rows = extra[at : at + micro * 2]
            total = sum(sum(row[1]) for row in extra)
            loss = -log_likelihoods(core, group_rows, pad, device).sum() / total * job.get("row_weight", 1.0)
            loss.backward()
            told["rows"] += float(loss)
        norm = torch.nn.utils.clip_grad_norm_(weights, 1.0)
        if math.isfinite(float(norm)):
            optimiser.step()
        else:
            skipped += 1
        optimiser.zero_grad(set_to_none=True)
        if step % 10 == 0 or step + 1 == steps:
            shown = " ".join(f"{key} {value:.3f}" for key, value in told.items())
            say(f"step {step + 1}/{steps} {shown} {time.time() - began:.0f} s")
    numbers = {
        "pairs_used": len(pairs),
        "rows_used": len(rows),
        "not_finite": skipped,
        "step": step + 1,
        "steps": steps,
    }
    save(model, job["out"], {**job, **numbers, "seconds_taken": round(time.time() - began, 1)})


# --- sampling ------------------------------------------------------------------------------------------------------


def sample(job: dict[str, Any]) -> None:
    """Outputs for each set, batch by batch; what is written stays, and a second run goes on behind it."""
    clock = Clock(job)
    tell = json.loads(Path(job["regexes"]).read_text("utf-8")) if job.get("regexes") else {}
    engine = {"vllm": VllmEngine, "hf": TransformersEngine}[job.get("engine", "vllm")](job, tell)
    say("engine ready after", round(clock.taken()), "s")
    out = Path(job["out"])
    out.mkdir(parents=True, exist_ok=True)
    waiting, last = list(job["sets"]), 0.0
    while waiting and not clock.over(last):
        ready = [one for one in waiting if not one.get("adapter") or (Path(one["adapter"]) / "job.json").exists()]
        if not ready:
            waiting = [one for one in waiting if not Path(f"{one['adapter']}.failed").exists()]
            time.sleep(0.5)
            continue
        one = ready[0]
        path = out / f"{one['name']}.jsonl"
        rows = unanswered(one["prompts"], path)
        batch, began, written = one.get("batch", job.get("batch", 512)), time.time(), 0
        with path.open("a", encoding="utf-8") as file:
            for at in range(0, len(rows), batch):
                if clock.over(last):
                    say("out of time:", one["name"], at, "of", len(rows))
                    raise SystemExit(4)
                part, started = rows[at : at + batch], time.time()
                for row, (text, ended, tokens) in zip(
                    part, engine.write(part, one.get("adapter"), one.get("most", 512)), strict=True
                ):
                    written += tokens
                    told = {key: row[key] for key in row if key not in ("messages", "prefix", "n")} | {
                        "set": one["name"],
                        "output": row.get("prefix", "") + text,
                        "ended": ended,
                        "tokens": tokens,
                    }
                    file.write(json.dumps(told, ensure_ascii=False) + "\n")
                file.flush()
                last = time.time() - started
                rate = written / (time.time() - began)
                say(f"{one['name']} {at + len(part)}/{len(rows)} {rate:.0f} tokens/s, {clock.taken():.0f} s")
        waiting.remove(one)
    say("sampled" if not waiting else f"without {[one['name'] for one in waiting]}")
    if waiting:
        raise SystemExit(4)
    (out / "done").touch()


def unanswered(prompts: str, path: Path) -> list[dict[str, Any]]:
    """The prompts without an output yet; a line that a kill has cut off is taken away."""
    done = set()
    if path.exists():
        whole = path.read_bytes()
        if not whole.endswith(b"\n"):
            path.write_bytes(whole[: whole.rfind(b"\n") + 1])
        done = {row["id"] for row in rows_of(path)}
    every = [
        {**row, "id": f"{row['id']}~{place}"} if row.get("n", 1) > 1 else row
        for row in rows_of(prompts)
        for place in range(row.get("n", 1))
    ]
    return [row for row in every if row["id"] not in done]


class VllmEngine:
    """vLLM with adapters switched per batch. Eager, because capturing CUDA graphs takes two minutes of a lent machine;
    a fixed cache, because a training beside it changes the free memory that vLLM would measure."""

    def __init__(self, job: dict[str, Any], regexes: dict[str, str]) -> None:
        from vllm import LLM, SamplingParams
        from vllm.lora.request import LoRARequest
        from vllm.sampling_params import StructuredOutputsParams

        self.params, self.lora, self.structured, self.regexes = (
            SamplingParams, LoRARequest, StructuredOutputsParams, regexes,
        )  # fmt: skip
        self.min_p, self.numbers = job.get("min_p", 0.02), {}
        self.model = LLM(
            model=job["base"], dtype="bfloat16", enable_lora=True, max_lora_rank=job.get("rank", 8), max_loras=2,
            enforce_eager=True, gpu_memory_utilization=job.get("memory", 0.25), max_model_len=4096, max_num_seqs=1024,
            kv_cache_memory_bytes=job.get("cache", 24_000_000_000), seed=job.get("seed", 0),
        )  # fmt: skip
        self.tokenizer = self.model.get_tokenizer()

    def write(self, rows: list[dict[str, Any]], adapter: str | None, most: int) -> list[tuple[str, bool, int]]:
        prompts, params = [], []
        for row in rows:
            ids = encoded(rendered(row["messages"], row.get("prefix", "")), self.tokenizer)[0]
            prompts.append({"prompt_token_ids": ids})
            kept = self.structured(regex=self.regexes[row["regex"]]) if row.get("regex") else None
            params.append(
                self.params(temperature=row.get("temperature", 0.7), min_p=self.min_p, max_tokens=most,
                            structured_outputs=kept)
            )  # fmt: skip
        number = self.numbers.setdefault(adapter, len(self.numbers) + 1)
        lora = self.lora(Path(adapter).name, number, adapter) if adapter else None
        made = self.model.generate(prompts, params, lora_request=lora, use_tqdm=False)
        first = [one.outputs[0] for one in made]
        return [(one.text, one.finish_reason == "stop", len(one.token_ids)) for one in first]


class TransformersEngine:
    """`generate` of transformers: slow, everywhere. Words with less than a fiftieth of the likeliest one's probability
    are left out; a sorted nucleus over 152,000 words took most of the time of a step."""

    def __init__(self, job: dict[str, Any], regexes: dict[str, str]) -> None:
        import torch

        self.base, self.loaded = job["base"], None
        self.model, self.tokenizer = open_base(job["base"])
        self.end = self.tokenizer.convert_tokens_to_ids(END)
        self.min_p = job.get("min_p", 0.02)
        torch.manual_seed(job.get("seed", 0))

    def use(self, adapter: str | None) -> None:
        """The base with this adapter merged in: an adapter beside it doubles the time of a word."""
        if adapter != self.loaded:
            self.model = None
            self.model, self.loaded = merged(open_base(self.base)[0], adapter), adapter

    def write(self, rows: list[dict[str, Any]], adapter: str | None, most: int) -> list[tuple[str, bool, int]]:
        import torch
        from transformers import LogitsProcessor, LogitsProcessorList

        least = math.log(self.min_p)

        class Heat(LogitsProcessor):  # type: ignore[misc]
            def __call__(self, input_ids: Any, scores: Any) -> Any:
                scores = scores.float() / heats
                return scores.masked_fill(scores < scores.max(-1, keepdim=True).values + least, -1e9)

        self.use(adapter)
        prompts = [encoded(rendered(row["messages"], row.get("prefix", "")), self.tokenizer)[0] for row in rows]
        longest, pad, device = max(map(len, prompts)), self.tokenizer.pad_token_id, self.model.device
        ids = torch.tensor([[pad] * (longest - len(one)) + one for one in prompts], device=device)
        mask = torch.tensor([[0] * (longest - len(one)) + [1] * len(one) for one in prompts], device=device)
        heats = torch.tensor([[max(0.01, row.get("temperature", 0.7))] for row in rows], device=device)
        with torch.inference_mode():
            made = self.model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=most, do_sample=True, temperature=1.0, top_k=0,
                top_p=1.0, logits_processor=LogitsProcessorList([Heat()]), eos_token_id=self.end, pad_token_id=pad,
            )[:, longest:].tolist()  # fmt: skip
        found = []
        for tokens in made:
            ended = self.end in tokens
            kept = tokens[: tokens.index(self.end)] if ended else [one for one in tokens if one != pad]
            found.append((self.tokenizer.decode(kept, skip_special_tokens=False), ended, len(kept)))
        return found


def score(job: dict[str, Any]) -> None:
    """Probabilities of the first token of each answer after each prompt."""
    import torch

    model, tokenizer = open_base(job["base"])
    answers = job["answers"]
    firsts = [tokenizer(one, add_special_tokens=False)["input_ids"][0] for one in answers]
    if len(set(firsts)) != len(firsts):
        raise SystemExit("two answers begin with the same token")
    files = [
        [(row["id"], encoded(rendered(row["messages"]), tokenizer)[0]) for row in rows_of(file)]
        for file in job["prompts"]
    ]
    model = merged(model, job.get("adapter"))
    budget, began = job.get("tokens", 40000), time.time()
    Path(job["out"]).parent.mkdir(parents=True, exist_ok=True)
    with Path(job["out"]).open("w", encoding="utf-8") as out, torch.inference_mode():
        for prompts in files:
            prompts.sort(key=lambda one: len(one[1]))
            at = 0
            while at < len(prompts):
                end = at + 1
                while end < len(prompts) and (end + 1 - at) * len(prompts[end][1]) <= budget:
                    end += 1
                part = prompts[at:end]
                at = end
                longest = max(len(ids) for _, ids in part)
                ids = torch.full((len(part), longest), tokenizer.pad_token_id)
                for place, (_, tokens) in enumerate(part):
                    ids[place, : len(tokens)] = torch.tensor(tokens)
                hidden = model.model(input_ids=ids.to(model.device), use_cache=False).last_hidden_state
                last = torch.tensor([len(tokens) - 1 for _, tokens in part], device=model.device)
                logits = model.lm_head(hidden[torch.arange(len(part), device=model.device), last]).float()
                shares = torch.softmax(logits[:, firsts], -1).tolist()
                for (name, _), values in zip(part, shares, strict=True):
                    out.write(
                        json.dumps(
                            {"id": name, "set": Path(job["out"]).stem, "odds": [round(one, 5) for one in values]}
                        )
                        + "\n"
                    )
            out.flush()
            say("scored", len(prompts), f"after {time.time() - began:.1f} s")


def alike(paths: list[list[int]]) -> int:
    """How many tokens all of them begin with."""
    return next(at for at, tokens in enumerate(zip(*paths, strict=False)) if len(set(tokens)) > 1)


def judge(job: dict[str, Any]) -> None:
    """Verdicts on cases {"id", "system", "turns": [text], "answers": [[text, …], …]}, turn by turn: each is asked after
    the verdicts that the judge itself gave before. An answer's probability goes by its first differing tokens."""
    import torch

    model, tokenizer = open_base(job["base"])
    model = merged(model, job.get("adapter"))
    cases, budget, began = [row for one in job["cases"] for row in rows_of(one)], job.get("tokens", 60000), time.time()
    chats: dict[str, list[dict[str, Any]]] = {case["id"]: [case["system"]] for case in cases}
    verdicts: dict[str, list[list[float]]] = {case["id"]: [] for case in cases}

    def read(part: list[tuple[str, list[int], list[str]]]) -> None:
        tokens = [[tokenizer(one, add_special_tokens=False)["input_ids"] for one in answers] for _, _, answers in part]
        # "The first", "The second" and "The two" share their beginning, "Neither" does not: two places to look at
        groups = [[path for path in paths if path[0] == paths[0][0]] for paths in tokens]
        shared = [alike(group) if len(group) > 1 else 1 for group in groups]
        whole = [ids + paths[0][:few] for (_, ids, _), paths, few in zip(part, tokens, shared, strict=True)]
        longest = max(map(len, whole))
        ids = torch.full((len(part), longest), tokenizer.pad_token_id)
        for at, one in enumerate(whole):
            ids[at, : len(one)] = torch.tensor(one)
        hidden = model.model(input_ids=ids.to(model.device), use_cache=False).last_hidden_state
        ends = torch.tensor([len(one) - 1 for one in whole], device=model.device)
        at = torch.arange(len(part), device=model.device)
        root = model.lm_head(hidden[at, ends - torch.tensor(shared, device=model.device)]).float()
        after = model.lm_head(hidden[at, ends]).float()
        for place, ((name, _, _), paths, group, few) in enumerate(zip(part, tokens, groups, shared, strict=True)):
            firsts = sorted({path[0] for path in paths})
            share = dict(zip(firsts, torch.softmax(root[place, firsts], -1).tolist(), strict=True))
            seconds = sorted({path[few] for path in group}) if len(group) > 1 else []
            deeper = dict(zip(seconds, torch.softmax(after[place, seconds], -1).tolist(), strict=True))
            odds = [share[path[0]] * (deeper[path[few]] if path in group and seconds else 1.0) for path in paths]
            verdicts[name].append([round(one, 5) for one in odds])

    with torch.inference_mode():
        for turn in range(max(len(case["turns"]) for case in cases)):
            asked = []
            for case in cases:
                if turn < len(case["turns"]):
                    chats[case["id"]].append({"role": "user", "content": case["turns"][turn]})
                    asked.append(
                        (case["id"], encoded(rendered(chats[case["id"]]), tokenizer)[0], case["answers"][turn])
                    )
            asked.sort(key=lambda one: len(one[1]))
            while asked:
                few = max(1, min(len(asked), budget // (len(asked[-1][1]) + 2)))
                read(asked[-few:])
                asked = asked[:-few]
            for case in cases:
                if turn < len(case["turns"]):
                    odds = verdicts[case["id"]][turn]
                    said = case["answers"][turn][odds.index(max(odds))]
                    chats[case["id"]].append({"role": "assistant", "content": said})
            say("turn", turn + 1, f"{time.time() - began:.1f} s")
    Path(job["out"]).parent.mkdir(parents=True, exist_ok=True)
    with Path(job["out"]).open("w", encoding="utf-8") as out:
        for case in cases:
            row = {"id": case["id"], "set": Path(job["out"]).stem, "odds": verdicts[case["id"]]}
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "dequantise":
        dequantise(*sys.argv[2:])
    else:
        {"train": train, "prefer": prefer, "sample": sample, "score": score, "judge": judge}[sys.argv[1]](
            json.loads(Path(sys.argv[2]).read_text("utf-8"))
        )
