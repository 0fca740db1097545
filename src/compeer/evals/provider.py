"""Our model homes as a provider of Inspect: `compeer/embedded`, `compeer/hf:DIR`, `compeer/openai:NAME`.

Inspect's own providers work in every role as well. This one adds what they cannot do: the grammar of the reasoning
contract while decoding, models in this process, and an HTTP client that costs a tenth of the processor time.

Three things travel in `extra_body`, which no other provider is sent: `reasoning`, the language whose grammar constrains
the output; `schema`, the JSON that the answer must be; and `fill`, words for a model name such as
`openai:esc-rank-{dimension}-{language}`, for judges that are one adapter a dimension and language behind one server.
"""

from __future__ import annotations

import re
from typing import Any

from inspect_ai.model import ChatMessage, GenerateConfig, ModelAPI, ModelOutput, ModelUsage, get_model
from inspect_ai.model import Model as InspectModel

from compeer.errors import UserError
from compeer.models import Model, Request, open_model
from compeer.models.spec import FORMS
from compeer.reasoning.grammar import plan

PREFIX = "compeer/"
CONNECTIONS = 64


class CompeerAPI(ModelAPI):  # type: ignore[misc]
    """A home of `compeer.models` behind Inspect's interface. The home retries by itself; Inspect is told not to."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),
        **model_args: Any,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        self._connections = config.max_connections or CONNECTIONS
        self._homes: dict[str, Model] = {}
        if "{" not in model_name:
            self.home(model_name)  # a spec that names nothing is an error now, not after the first dialogue

    def home(self, name: str) -> Model:
        """The model of that name; weights load on first use."""
        if name not in self._homes:
            self._homes[name] = open_model(
                name, base_url=self.base_url, api_key=self.api_key, concurrency=self._connections
            )
        return self._homes[name]

    async def generate(
        self, input: list[ChatMessage], tools: list[Any], tool_choice: Any, config: GenerateConfig
    ) -> ModelOutput:
        extra = config.extra_body or {}
        name = self.model_name.format(**extra["fill"]) if "fill" in extra else self.model_name
        request = Request(
            messages=[{"role": message.role, "content": message.text} for message in input],
            max_tokens=config.max_tokens or 1024,
            temperature=0.7 if config.temperature is None else config.temperature,
            top_p=1.0 if config.top_p is None else config.top_p,
            seed=config.seed,
            stop=tuple(config.stop_seqs or ()),
            plan=plan(extra["reasoning"]) if "reasoning" in extra else None,
            schema=extra.get("schema"),
        )
        answer = await self.home(name).ask(request)
        output = ModelOutput.from_content(
            answer.model or name, answer.text, "max_tokens" if answer.finish == "length" else "stop"
        )
        used = answer.usage
        output.usage = ModelUsage(
            input_tokens=used.prompt - used.cached,
            output_tokens=used.completion,
            total_tokens=used.prompt + used.completion,
            input_tokens_cache_read=used.cached or None,
        )
        return output

    async def aclose(self) -> None:
        for home in self._homes.values():
            await home.close()
        self._homes.clear()

    def connection_key(self) -> str:
        return f"{self.model_name}@{self.base_url}"

    def max_connections(self) -> int:
        return self._connections


def is_ours(model: InspectModel) -> bool:
    return isinstance(model.api, CompeerAPI)


def open_role(spec: str, *, base_url: str | None = None, connections: int = CONNECTIONS) -> InspectModel:
    """The model that a role is given on the command line: one of our specs, or PROVIDER/NAME of Inspect."""
    import compeer.evals.tasks  # noqa: F401 registers the provider

    ours = spec.startswith(("embedded", "gguf:", "hf:", "openai:", PREFIX))
    if not ours and "/" not in spec:
        raise UserError(f"{spec!r} names no model. {FORMS}\n  PROVIDER/NAME                one of Inspect's providers")
    config = GenerateConfig(max_connections=connections, max_retries=None if ours else 8)
    try:
        return get_model(
            PREFIX + spec.removeprefix(PREFIX) if ours else spec, base_url=base_url, config=config, memoize=False
        )
    except UserError:
        raise
    except Exception as error:  # Inspect's providers raise what they like: a missing package, a missing key
        plain = re.sub(r"\[/?[a-z ]+\]", "", str(error))  # their messages carry colours
        raise UserError(f"{spec} cannot be opened: {' '.join(plain.split())}") from None


def role_name(model: InspectModel) -> str:
    """How results name a model: the spec without the server's address."""
    return str(model).removeprefix(PREFIX)
