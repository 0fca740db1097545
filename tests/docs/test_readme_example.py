"""The Python of the README runs, with the embedded model as it comes along."""

from __future__ import annotations

import subprocess
import sys

from tests.docs.pages import ROOT, blocks


def test_the_python_example_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    program = next(block.text for block in blocks(text) if block.text.startswith("from compeer."))
    *before, last = program.splitlines()
    checked = [*before, f"shown = ({last})", "assert 1 <= shown[0] <= 5 and shown[1], shown", "print('ok')"]
    done = subprocess.run([sys.executable, "-c", "\n".join(checked)], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("ok\n"), done.stderr[-2000:]
