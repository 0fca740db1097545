"""How the server runs: where it listens, who may come in, how much at once, and how long."""

from __future__ import annotations

import msgspec

from compeer.reasoning.prompt import Length


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be chosen when it is started. Times are in seconds."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    name: str = "compeer"  # of the model, as clients see it

    places: int = 8  # answers written side by side
    queue: int = 64  # requests that may wait
    timeout: float = 600.0  # for one request, waiting included
    first: float = 60.0  # for the first token, once it has a place
    grace: float = 30.0  # for what is under way when the server is stopped
    most_tokens: int = 2000  # of one answer, thinking included
    most_messages: int = 1000
    most_bytes: int = 32 << 20

    prompt: Length = "full"
    history: int = 1500  # words of the conversation that a model reads; older turns are left out
    temperature: float = 0.7
    top_p: float = 0.95
    penalty: float = 1.05
    country: str | None = None  # whose helplines are shown; None: by language
    log: bool = True
