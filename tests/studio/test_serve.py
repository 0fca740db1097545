"""The port that the studio listens on."""

from __future__ import annotations

import asyncio
import socket

from compeer.studio.app import bind


def test_answers_do_not_wait_for_each_other() -> None:
    """Without TCP_NODELAY a page whose head and body are two packets waits for 40 ms."""

    async def nodelay() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = bind("127.0.0.1", 0)
        async with await asyncio.start_server(answer, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            told = await found
            writer.close()
            return told

    assert asyncio.run(nodelay())
