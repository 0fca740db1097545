"""In CI a test that is skipped for want of something fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_corpora():
    pytest.skip("ESConv is not at DIR; set COMPEER_DATA to the folder of corpora")

@pytest.mark.skipif(True, reason="no Chromium on this machine")
def test_browser():
    pass

def test_gpu():
    pytest.skip("there is one")
"""


@pytest.mark.parametrize(
    ("environment", "failed"),
    [({}, 0), ({"CI": "true"}, 1), ({"CI": "true", "COMPEER_DATA": "somewhere"}, 2)],
    ids=["at home", "CI", "CI with corpora"],
)
def test_a_skip_fails_in_ci(tmp_path: Path, environment: dict[str, str], failed: int) -> None:
    (tmp_path / "conftest.py").write_text(
        (Path(__file__).parent / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (tmp_path / "test_made.py").write_text(TESTS, encoding="utf-8")
    outside = {name: value for name, value in os.environ.items() if name not in ("CI", "COMPEER_DATA")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, env=outside | environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == (1 if failed else 0), done.stdout
    assert f"{3 - failed} skipped" in done.stdout, done.stdout
