"""A program in a real pseudo-terminal, as a person would have it before them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\]8;[^\x1b]*\x1b\\|[\x01\x02]")  # links too
PROMPT = "\nYou  "
COMPEER = str(Path(sys.executable).parent / "compeer")


class PseudoTerminal:
    """`ask` types a line and gives back what was shown until the next prompt."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: str, columns: int = 80) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd, start_new_session=True, close_fds=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self.master = master
        self.raw = b""  # everything it ever wrote
        self._read = 0  # how much of `text` was given back

    @property
    def text(self) -> str:
        """Everything shown, without styles."""
        return _STYLE.sub("", self.raw.decode("utf-8", "replace")).replace("\r\n", "\n")

    def until(self, what: str, seconds: float = 60) -> str:
        """What is shown up to and with `what`, from where the last call ended."""
        deadline = time.monotonic() + seconds
        while (at := self.text.find(what, self._read)) < 0:
            left = deadline - time.monotonic()
            if left < 0 or not self._more(left):
                raise AssertionError(f"{what!r} was not shown. Instead:\n{self.text[self._read :]}")
        shown = self.text[self._read : at + len(what)]
        self._read = at + len(what)
        return shown

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def ask(self, line: str) -> str:
        self.press(line + "\n")
        return self.until(PROMPT)

    def leave(self, keys: str = "\x04") -> int:
        """Ctrl-D, or other keys; the exit status.

        A signal that comes after the prompt is drawn and before Python waits for a line is only seen at the next key,
        so a person who gets no answer for a while presses once more, and so does this.
        """
        for _ in range(5):
            self.press(keys)
            while self._more(10):
                pass
            try:
                return self.process.wait(5)
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError(f"{keys!r} did not end it:\n{self.text[self._read :]}")

    def _more(self, seconds: float) -> bool:
        """Read what there is; False when nothing came or the program has ended."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other end is closed
            return False
        self.raw += data
        return bool(data)

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


Chat = Callable[..., PseudoTerminal]
