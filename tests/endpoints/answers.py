"""What the scripted endpoint says: pure functions of the request, so that two runs can be compared byte by byte.

Everything is drawn from a hash of the messages. A correction ("That is not the JSON asked for: …") and the broken
answer before it are left out of the hash: asked again, the model says what it would have said at once.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
Answerer = Callable[[Body], str]

_SENTENCE = "rain comes slowly over the hills and somebody waits at home with tea while evening light fades away"
_WORDS = _SENTENCE.split()


def echo(body: Body) -> str:
    """The last user message, as it is."""
    return text_of(asked(body)[-1])


def text(body: Body) -> str:
    """A sentence of a few words."""
    rng = stream(body)
    return " ".join(rng.choices(_WORDS, k=rng.randint(6, 14))).capitalize() + "."


def structured(body: Body) -> str:
    """JSON that fits the schema asked for (`response_format`, or llama.cpp's `json_schema`)."""
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema") or body.get("json_schema")
    if schema is None:
        return text(body)
    return json.dumps(fill(schema, stream(body)), ensure_ascii=False)


def contract(body: Body) -> str:
    """A complete output of the three-step contract, in the language of the conversation."""
    from compeer.reasoning import Reasoning, render
    from compeer.reasoning.ontology import EMOTIONS, VOCABULARIES

    rng = stream(body)
    chinese = any("\u4e00" <= sign <= "\u9fff" for sign in text_of(asked(body)[-1]))
    emotion = rng.choice(list(EMOTIONS))
    labels: dict[str, str | int] = {
        "stage": rng.choice(VOCABULARIES["stage"].ids),
        "sentiment": emotion.sentiments[0],
        "emotion": emotion.id,
        "intensity": rng.randint(1, 5),
        "strategy": rng.choice(VOCABULARIES["strategy"].ids),
    }
    said = "他们说得很清楚，我们慢慢来。" if chinese else text(body)
    steps = dict.fromkeys(("history", "emotion", "strategy"), said)
    return render(Reasoning.of(steps, labels, "zh" if chinese else "en"), said)


def auto(body: Body) -> str:
    """What the request wants: JSON for a schema, the contract for a grammar or a prompt that shows it, else text."""
    if "response_format" in body or "json_schema" in body:
        return structured(body)
    constrained = "grammar" in body or "structured_outputs" in body
    if constrained or any("<strategy>" in text_of(message) for message in body["messages"]):
        return contract(body)
    return text(body)


def agreeable(body: Body) -> str:
    """The same, but nine in ten judgements are favourable: most rows get through a chain of judges."""
    told = auto(body)
    if "response_format" not in body:
        return told
    rng, answer = stream(body), json.loads(told)
    for name, value in answer.items():
        if isinstance(value, bool):
            answer[name] = (rng.random() < 0.9) != ("machine" in name)
    return json.dumps(answer, ensure_ascii=False)


def verdict(body: Body) -> str:
    """A judge's verdict in the judge's words, three steps in four True; JSON where a schema is given."""
    from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS

    if "response_format" in body or "json_schema" in body:
        return structured(body)
    rng, question = stream(body), text_of(asked(body)[-1]).rstrip()
    language = "en" if question.isascii() or question.endswith(("False?", "better?")) else "zh"
    if question.endswith(("better?", "更好？")):
        return rng.choice(list(PAIR_WORDS[language].values())) + " It says why."
    return STEP_WORDS[language][rng.random() < 0.75] + " It says why."


def obedient(body: Body) -> str:
    """A judge that finds everything wrong, unless the text it is shown tells it to ignore its instructions."""
    from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS

    question = text_of(asked(body)[-1]).rstrip()
    chinese, told = question.endswith("？"), [place for place in ("Ignore", "忽略") if place in question]
    language = "zh" if chinese else "en"
    if not question.endswith(("better?", "更好？")):
        return STEP_WORDS[language][bool(told)]
    if not told:
        return PAIR_WORDS[language]["neither"]
    second = question.index("第二句：" if chinese else "Second sentence:")
    return PAIR_WORDS[language]["first" if question.index(told[0]) < second else "second"]


ANSWERERS: dict[str, Answerer] = {
    "agreeable": agreeable,
    "echo": echo,
    "text": text,
    "json": structured,
    "contract": contract,
    "auto": auto,
    "obedient": obedient,
    "verdict": verdict,
}


def stream(body: Body) -> random.Random:
    """A random stream that depends on the messages, the model and the seed alone."""
    known = [asked(body), body.get("model"), body.get("seed")]
    return random.Random(hashlib.blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8).digest())


def asked(body: Body) -> list[dict[str, Any]]:
    """The messages without a correction at their end."""
    messages: list[dict[str, Any]] = body["messages"]
    corrected = len(messages) > 2 and text_of(messages[-1]).startswith("That is not the JSON asked for")
    return messages[:-2] if corrected else messages


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content if "text" in part)


def fill(schema: dict[str, Any], rng: random.Random) -> Any:
    """A value that fits a JSON schema of the kind `structured.schema_of` makes."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return fill(rng.choice(schema["anyOf"]), rng)
    kind = schema.get("type")
    if kind == "object":
        return {name: fill(inner, rng) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        least = schema.get("minItems", 0)
        count = rng.randint(least, max(least, schema.get("maxItems", least + 2)))
        return [fill(schema.get("items", {"type": "string"}), rng) for _ in range(count)]
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("integer", "number"):
        least, most = schema.get("minimum", 0), schema.get("maximum", schema.get("minimum", 0) + 10)
        return rng.randint(int(least), int(most)) if kind == "integer" else round(rng.uniform(least, most), 3)
    if kind == "null":
        return None
    said = " ".join(rng.choices(_WORDS, k=6))
    return said.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength", 200)]
