"""`compeer demo --quick`: one turn of a bundled conversation by the embedded model, in the open.

It shows the contract, the control and the embedded model at work, in seconds and without torch.
"""

from __future__ import annotations

import asyncio

from rich.console import Console
from rich.text import Text

from compeer.conversation.display import chips, reasoning_panel
from compeer.corpora.bundled import load
from compeer.dialogue import messages, turns
from compeer.models import open_model, reason, request_for
from compeer.models.shipped import adapter
from compeer.reasoning import Control, Pins


def show_turn() -> None:
    asyncio.run(_demo(Console()))


async def _demo(console: Console) -> None:
    dialogue = next(dialogue for dialogue in load("en") if dialogue.id == "compeer/en/032")
    opening = turns(dialogue)[:1]
    console.print("[bold]COMPEER[/bold]: a supporter that thinks in three steps before it answers.\n")
    console.print("[dim]1. A conversation from the bundled corpus begins.[/dim]")
    console.print(f"\n[bold]Seeker[/bold]  {opening[0].text}\n")
    trained = "with its shipped adapter" if adapter("supporter") else "untrained"
    console.print(f"[dim]2. The embedded model (SmolLM2-135M, {trained}) thinks and answers.[/dim]\n")
    model = open_model("embedded:small")
    settings = {"length": "brief", "seed": 7, "temperature": 0.6, "top_p": 0.9, "penalty": 1.05}
    try:
        with console.status("[dim]thinking[/dim]"):
            free = await reason(model, request_for(messages(opening), "en", **settings))  # type: ignore[arg-type]
        console.print(reasoning_panel(free.parsed, free.problems))
        console.print("\n[dim]3. The same moment, with the strategy pinned: a grammar keeps it while decoding.[/dim]\n")
        control = Control(Pins(strategy="question", emotion="loneliness"))
        with console.status("[dim]thinking[/dim]"):
            pinned = await reason(model, request_for(messages(opening), "en", control, **settings), control)  # type: ignore[arg-type]
        console.print(Text(chips(pinned.parsed), style="cyan"))
        console.print(Text(pinned.parsed.response))
    finally:
        await model.close()
    kept = "kept" if pinned.complete else "NOT kept: " + "; ".join(pinned.problems)
    console.print(f"\nFormat and pins: {kept}. Talk with it yourself: [bold]compeer chat[/bold]")
