"""One way to ask a language model, three places it can run.

request       what is asked and what comes back; retries
ask           a supporter's turn through the contract; answers as JSON of a given type
spec          names of models: "embedded", "embedded:small", "gguf:FILE", "hf:DIR+ADAPTER", "openai:MODEL"
cache         answers on disk, keyed on the rendered request
endpoint      any OpenAI-compatible server
local         a transformers model in this process, with an optional LoRA adapter
checkpoint    a transformers checkpoint: what is in its folder, and how it is opened
embedded      a model in this process, through llama.cpp: the known weights or any GGUF file
llama_server  llama.cpp's server in this process: opened, asked, closed; which slot keeps which conversation
weighing      the probability of some answers against each other, by llama.cpp
weights       the known weights: a table, where they lie, their hashes
fetch         weights from the hub or from a package index
lora_gguf     GGUF files: their header, and LoRA adapters as llama.cpp loads them
shipped       the adapters in the package: supporter and judge
embedding     sentence vectors
"""

from compeer.models.ask import Reasoned, reason, request_for
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
    "request_for",
    "run",
]
