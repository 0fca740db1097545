"""Types are read safely in threads: nothing in the package asks msgspec for a type it may not know yet."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import compeer
from compeer.typed import from_json, from_plain, known

FIRST_AT_ONCE = """
import sys, threading
from compeer.cer.gold import __file__ as gold
from compeer.cer.item import Item
from compeer.typed import from_json
line = open(gold.replace("__init__.py", "items.jsonl"), "rb").readline()
sys.setswitchinterval(1e-6)  # threads take turns inside of what would seldom be interrupted
barrier, ids = threading.Barrier(16), []
def read():
    barrier.wait()
    ids.append(from_json(line, Item).id)
threads = [threading.Thread(target=read) for _ in range(16)]
for one in threads: one.start()
for one in threads: one.join()
assert len(ids) == 16 and len(set(ids)) == 1
"""


def test_sixteen_threads_that_read_their_first_item_at_once() -> None:
    """A quarter of such processes ended with a segmentation fault when msgspec was asked directly."""
    started = [subprocess.Popen([sys.executable, "-c", FIRST_AT_ONCE]) for _ in range(10)]
    assert [process.wait() for process in started] == [0] * 10


def test_nothing_asks_msgspec_for_a_type_directly() -> None:
    home = Path(compeer.__file__).parent
    found = []
    for path in home.rglob("*.py"):
        if path == home / "typed.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _unsafe(node):
                found.append(f"{path.relative_to(home)}:{node.lineno}")
    assert not found, "use compeer.typed"


def _unsafe(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name == "msgspec.convert" or (name.endswith(".decode") and any(one.arg == "type" for one in call.keywords)):
        return True
    wraps = bool(call.args) and isinstance(call.args[0], ast.Call) and ast.unparse(call.args[0].func) == "known"
    return name.startswith("msgspec.") and name.endswith(".Decoder") and bool(call.args) and not wraps


def test_values_of_a_type() -> None:
    class Point(msgspec.Struct):
        x: int

    assert from_json('{"x": 1}', Point) == from_plain({"x": "1"}, Point, strict=False) == Point(1)
    assert known(Point) is Point
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`, got `str` - at `\$.x`"):
        from_plain({"x": "1"}, Point)
