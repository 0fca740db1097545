"""What runs on the GPU machine: de-quantise the base, train LoRA adapters, sample, and read next-word probabilities.

    python device.py dequantise GGUF TOKENIZER OUT [SIZE]
    python device.py train JOB.json     {"base", "rows", "out", "rank", "rate", "epochs", "batch", "seed"}
    python device.py prefer JOB.json    {"base", "pairs", "out", "beta", "likelihood", …}: DPO
    python device.py sample JOB.json    {"base", "sets": [{"name", "prompts", "most", "adapter"}], "out"}
    python device.py score JOB.json     {"base", "adapter", "prompts": […], "answers", "out"}
    python device.py judge JOB.json     {"base", "adapter", "cases": […], "out"}: verdicts turn by turn

Every job may have `seconds`: it stops itself 20 s before they are over (`spare`), with what is there saved; and `gib`,
the memory that it may take. `sample` appends to `out`/NAME.jsonl after every batch and, started again, leaves out what
is there; a set whose adapter is not there is left out. `remote.py` says when what runs.

It needs torch, transformers, peft, and the `gguf` package beside it, and nothing of compeer.
Rows are {"messages": […], "answer": text}, or {"messages": […]} with several assistant turns marked `"learn": true`;
pairs are {"messages", "chosen", "rejected"}; prompts are {"id", "messages", "temperature", "n", "prefix"}; what else
stands in them comes back with the output, `n` outputs have the ids ID~0, ID~1 and so on. Everything is ChatML.

Why not the package's own trainer: a vocabulary of 152,000 words makes the loss the largest part of a step, and half of
the tokens are prompt. Here the head sees learnt tokens only, rows of like length stand together, and there is no
attention mask (padding stands behind, where a causal model cannot see it), which also avoids the losses that were not
numbers. A step of a few thousand tokens is too small for an H200: most of its time went into starting some 9,000 small
kernels, and `Learner` starts a third of them. Measured on an H200 beside plain transformers: see README.md.
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


def adapted(job: dict[str, Any]) -> tuple[Any, Any]:
    """The base with a LoRA of peft on all linear layers, in bfloat16 and without peft's and autocast's detours."""
    import peft
    import torch
    from torch.nn import functional

    random.seed(job.get("seed", 0))
    torch.manual_seed(job.get("seed", 0))
    if torch.cuda.is_available() and "gib" in job:  # who takes more than was said fails alone
        torch.cuda.set_per_process_memory_fraction(min(1.0, job["gib"] / (torch.cuda.mem_get_info()[1] / 2**30)))
    model, tokenizer = open_base(job["base"])
    rank = job.get("rank", 8)
    shape = peft.LoraConfig(r=rank, lora_alpha=job.get("alpha", 2 * rank), target_modules="all-linear",
                            lora_dropout=job.get("dropout", 0.0), task_type="CAUSAL_LM")  # fmt: skip
    model = peft.get_peft_model(model, shape, autocast_adapter_dtype=False)

    def linear(layer: Any) -> Any:
        base, scale, drop = layer.base_layer, layer.scaling["default"], job.get("dropout", 0.0)
        down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight

        def forward(x: Any) -> Any:
            small = functional.linear(functional.dropout(x, drop, layer.training) if drop else x, down)
            out = functional.linear(x, base.weight, base.bias)
            return torch.addmm(out.flatten(0, -2), small.flatten(0, -2), up.T, alpha=scale).view_as(out)

        return forward

    def norm(layer: Any) -> Any:
        return lambda x: functional.rms_norm(x, x.shape[-1:], layer.weight, layer.variance_epsilon)

    for module in model.modules():
        if isinstance(module, peft.tuners.lora.Linear):
            module.forward = linear(module)
        elif type(module).__name__.endswith("RMSNorm"):
            module.forward = norm(module)
    return model, tokenizer


class Learner:
    """AdamW over one flat tensor: the weights in bfloat16, and their gradients, are parts of two others."""

    def __init__(self, model: Any, job: dict[str, Any], steps: int, clock: Clock) -> None:
        import torch

        weights = [one for one in model.parameters() if one.requires_grad]
        self.live = torch.cat([one.detach().flatten() for one in weights])
        self.slope = torch.zeros_like(self.live)
        at = 0
        for one in weights:
            part = slice(at, at := at + one.numel())
            one.data, one.grad = self.live[part].view_as(one), self.slope[part].view_as(one)
        self.master = torch.nn.Parameter(self.live.float())
        self.optimiser = torch.optim.AdamW([self.master], weight_decay=0.0, betas=(0.9, 0.98), fused=self.live.is_cuda)
        self.rate, self.steps, self.clock, self.skipped = job.get("rate", 5e-5), steps, clock, 0
        self.began = self.clock.taken()  # the rate falls with the steps or with the time, whichever is nearer its end
        self.budget = job.get("tokens", 6000)

    def step(self, step: int) -> None:
        """One step with what `learn` has left; a gradient that is not a number is thrown away."""
        done = max(step / self.steps, self.past())
        falling = max(0.05, 0.5 * (1 + math.cos(math.pi * min(1.0, done))))
        self.optimiser.param_groups[0]["lr"] = (
            self.rate * min(1.0, (step + 1) / max(1, int(0.06 * self.steps))) * falling
        )
        self.master.grad = self.slope.float()
        if math.isfinite(norm := float(self.master.grad.norm())):
            self.master.grad /= max(1.0, norm)
            self.optimiser.step()
            self.live.copy_(self.master.data)
        else:
            self.skipped += 1

    def past(self) -> float:
        """The share of the time that is over."""
        return (self.clock.taken() - self.began) / max(1.0, self.clock.limit - self.began)

    def learn(self, units: list[Any], length: Any, loss: Any) -> list[float]:
        """The gradient of the summed `loss` of these units, as many at a time as `budget` tokens (`length` each); gives
        what `loss` tells beside it, summed. Where the memory is too small, with fewer at a time from here on."""
        import torch

        while True:
            self.slope.zero_()
            parts: list[list[Any]] = [[]]
            for unit in sorted(units, key=length):
                if parts[-1] and (len(parts[-1]) + 1) * length(unit) > self.budget:
                    parts.append([])
                parts[-1].append(unit)
            try:
                told = []
                for part in parts:
                    value, shown = loss(part)
                    value.backward()
                    told.append(torch.stack([value.detach(), *shown]))
                return torch.stack(told).sum(0).tolist()  # type: ignore[no-any-return]
            except torch.OutOfMemoryError:
                if self.budget < 500:
                    raise
                self.budget //= 2
                say("out of memory: from here on", self.budget, "tokens at a time")
            torch.cuda.empty_cache()


def batched(rows: list[tuple[list[int], list[bool]]], model: Any, pad: int) -> tuple[Any, Any]:
    """The log-probability of each learnt token, and its row's number."""
    import torch

    longest = max(len(row[0]) for row in rows)
    ids = torch.tensor([tokens + [pad] * (longest - len(tokens)) for tokens, _ in rows]).to(model.device)
    mark = torch.tensor([learnt + [False] * (longest - len(learnt)) for _, learnt in rows]).to(model.device)
    core, place = model.base_model.model, mark[:, 1:]
    hidden = core.model(input_ids=ids, use_cache=False).last_hidden_state
    logits = core.lm_head(hidden[:, :-1][place])
    owner = torch.arange(len(rows), device=model.device)[:, None].expand_as(place)[place]
    return -torch.nn.functional.cross_entropy(logits.float(), ids[:, 1:][place], reduction="none"), owner


def encoded_answer(row: dict[str, Any], tokenizer: Any, side: str = "answer") -> tuple[list[int], list[bool]]:
    answer = [{"role": "assistant", "content": row[side], "learn": True}] if side in row else []
    return encoded(rendered([*row["messages"], *answer], ask=False), tokenizer)


def train(job: dict[str, Any]) -> None:
    """Rows of like length together, the loss over learnt tokens only."""
    clock = Clock(job)
    model, tokenizer = adapted({"dropout": 0.05} | job)
    rows = [encoded_answer(row, tokenizer) for row in rows_of(job["rows"])]
    rows = [row for row in rows if len(row[0]) <= job.get("longest", 1600)]
    epochs, batch = job.get("epochs", 2), job.get("batch", 32)
    steps = math.ceil(epochs * len(rows) / batch)
    order: list[int] = []
    while len(order) < steps * batch:
        one = list(range(len(rows)))
        random.shuffle(one)
        for start in range(0, len(one), batch * 8):  # like lengths together, among eight batches
            window = sorted(one[start : start + batch * 8], key=lambda at: len(rows[at][0]))
            chunks = [window[at : at + batch] for at in range(0, len(window), batch)]
            random.shuffle(chunks)
            order += [at for chunk in chunks for at in chunk]
    say("rows", len(rows), "steps", steps, "tokens", sum(len(row[0]) for row in rows), f"{clock.taken():.0f} s")
    learner, began, seen, step, told = Learner(model, job, steps, clock), time.time(), 0, 0, [0.0]
    model.train()
    for step in range(steps):
        if learner.past() >= 1:
            say("out of time after", step, "steps")
            break
        chosen = [rows[at] for at in order[step * batch : (step + 1) * batch]]
        total = sum(sum(row[1]) for row in chosen)

        def loss(part: list[Any], total: int = total) -> tuple[Any, list[Any]]:
            return -batched(part, model, tokenizer.pad_token_id)[0].sum() / total, []

        told = learner.learn(chosen, lambda row: len(row[0]), loss)
        learner.step(step)
        seen += sum(len(row[0]) for row in chosen)
        if step % 10 == 0 or step + 1 == steps:
            say(f"step {step + 1}/{steps} loss {told[0]:.4f} {seen / (time.time() - began):.0f} tokens/s", memory())
    numbers = {"rows_used": len(rows), "last_loss": told[0], "step": step + 1, "tokens_seen": seen}
    close(model, job | numbers, learner, began)


def memory() -> str:
    import torch

    return f"{torch.cuda.max_memory_reserved() / 2**30:.1f} GiB" if torch.cuda.is_available() else ""


def close(model: Any, job: dict[str, Any], learner: Learner, began: float) -> None:
    told = {"not_finite": learner.skipped, "steps": learner.steps, "budget": learner.budget, "memory": memory()}
    save(model, job["out"], job | told | {"seconds_taken": round(time.time() - began, 1)})


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


def prefer(job: dict[str, Any]) -> None:
    """Direct preference optimisation of a LoRA from the base, with the likelihood of the chosen answer beside it.

    loss = -log sigmoid(beta ((chosen - rejected) - (the same under the base))) - likelihood / length of chosen
    The base's values are taken before the first step, when the LoRA still changes nothing.
    """
    import torch
    from torch.nn import functional

    clock = Clock(job)
    model, tokenizer = adapted(job)
    pad = tokenizer.pad_token_id

    def values(part: list[Any]) -> Any:
        """By pair the log-probabilities of both answers."""
        told, owner = batched([side for one in part for side in one[:2]], model, pad)
        return torch.zeros(2 * len(part), device=told.device).index_add(0, owner, told).view(-1, 2)

    def length(one: Any) -> int:
        return 2 * max(len(one[0][0]), len(one[1][0]))

    pairs: list[Any] = [
        [encoded_answer(row, tokenizer, "chosen"), encoded_answer(row, tokenizer, "rejected")]
        for row in rows_of(job["pairs"])
    ]
    pairs = sorted((one for one in pairs if length(one) <= 2 * job.get("longest", 1400)), key=length)
    epochs, batch = job.get("epochs", 1), job.get("batch", 16)
    steps = math.ceil(epochs * len(pairs) / batch)
    learner = Learner(model, job, steps, clock)
    rest = list(pairs)
    while rest:  # the longest first: what is too much fails at once
        few = max(1, learner.budget // length(rest[-1]))
        with torch.no_grad():
            for one, told in zip(rest[-few:], values(rest[-few:]), strict=True):
                one.append(told)
        rest = rest[:-few]
    order = [at for _ in range(math.ceil(epochs) + 1) for at in random.sample(range(len(pairs)), len(pairs))]
    beta, likelihood = job.get("beta", 0.1), job.get("likelihood", 0.2)
    say("pairs", len(pairs), "steps", steps, f"{clock.taken():.0f} s")
    model.train()
    began, step, shown = time.time(), 0, [0.0] * 3
    for step in range(steps):
        if learner.past() >= 1:
            say("out of time after", step, "steps")
            break
        chosen = [pairs[at] for at in order[step * batch : (step + 1) * batch]]

        def loss(part: list[Any], count: int = len(chosen)) -> tuple[Any, list[Any]]:
            now = values(part)
            gap = (now - torch.stack([one[2] for one in part])) @ torch.tensor([1.0, -1.0], device=now.device)
            lengths = torch.tensor([float(sum(one[0][1])) for one in part], device=now.device)
            whole = (-functional.logsigmoid(beta * gap) - likelihood * now[:, 0] / lengths).sum() / count
            return whole, [gap.detach().sum() / count, (gap > 0).sum() / count]

        shown = learner.learn(chosen, length, loss)
        learner.step(step)
        if step % 10 == 0 or step + 1 == steps:
            told = "loss {:.4f} margin {:.3f} right {:.3f}".format(*shown)
            say(f"step {step + 1}/{steps} {told} {time.time() - began:.0f} s", memory())
    close(model, job | {"pairs_used": len(pairs), "last_loss": shown[0], "step": step + 1}, learner, began)


# --- sampling ------------------------------------------------------------------------------------------------------


def sample(job: dict[str, Any]) -> None:
    """Outputs for each set, batch by batch; what is written stays, and a second run goes on behind it."""
    clock = Clock(job)
    engine = Engine(job)
    say("engine ready after", round(clock.taken()), "s")
    out, last = Path(job["out"]), 0.0
    out.mkdir(parents=True, exist_ok=True)
    for one in job["sets"]:
        if one.get("adapter") and not (Path(one["adapter"]) / "job.json").exists():
            say("without", one["name"])
            continue
        path = out / f"{one['name']}.jsonl"
        rows = unanswered(one["prompts"], path)
        batch, began, written = job.get("batch", 256), time.time(), 0
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


class Engine:
    """`generate` of transformers: slow, everywhere. Words with less than a fiftieth of the likeliest one's probability
    are left out; a sorted nucleus over 152,000 words took most of the time of a step."""

    def __init__(self, job: dict[str, Any]) -> None:
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
