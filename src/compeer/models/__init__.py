"""One way to ask a language model, three places it can live.

request     what is asked and what comes back
embedded    SmolLM2-135M-Instruct in this process, through llama.cpp; weights, its file; room, its context
endpoint    any OpenAI-compatible server, the wire protocol over aiohttp; retry, its patience
local       a transformers model in this process, with an optional LoRA adapter; checkpoint, sampling
cache       answers on disk, keyed on the rendered request
spec        "embedded", "embedded:plain", "hf:DIR+ADAPTER", "openai:MODEL"
shipped     the supporter's and the judge's adapter that come along; lora_gguf converts them, tensors reads them
reasoner    a supporter's turn through the contract
meter       what services in front of a model count, as Prometheus reads it
"""

from compeer.models.ask import Reasoned, reason, reason_stream, request_for
from compeer.models.cache import CachedModel, RequestCache
from compeer.models.request import Answer, Failure, Model, ModelError, Request, Usage, ask_all, run
from compeer.models.spec import open_model

__all__ = [
    "Answer",
    "CachedModel",
    "Failure",
    "Model",
    "ModelError",
    "Reasoned",
    "Request",
    "RequestCache",
    "Usage",
    "ask_all",
    "open_model",
    "reason",
    "reason_stream",
    "request_for",
    "run",
]
