"""`compeer chat` in a real pseudo-terminal, with a server that is kind, and then with one that is not."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.hidden import hide
from tests.conversation.pseudo_terminal import COMPEER, PROMPT, Chat
from tests.conversation.supporter import WORDS, Supporter

from compeer.conversation.terminal import completions

TAGS = ("<think", "</think", "<history", "<emotion", "<strategy", "</strategy")


def test_a_message_is_answered_and_the_thinking_stays_folded(chat: Chat, supporter: Supporter, tmp_path: Path) -> None:
    supporter.manner, supporter.piece = "contract", 1
    with chat() as terminal:
        notice = terminal.until(PROMPT)
        assert "not a person and not a therapist" in notice and "988" in notice and "12356" in notice
        assert f"goes to {supporter.base_url}" in notice
        shown = terminal.ask("I lost my job.")
        assert "Supporter  That sounds heavy to carry alone 1." in shown
        assert "exploration · shame 4/5 · question   /why" in shown
        assert not any(text in shown for text in WORDS["en"].values())
        assert terminal.leave() == 0
        assert terminal.text.rstrip().endswith("Take care.")
        assert not any(tag in terminal.text for tag in TAGS)
    assert list(tmp_path.rglob("*")) == []  # nothing of it is on the disk


def test_while_it_thinks_the_step_is_named(chat: Chat, supporter: Supporter) -> None:
    supporter.delay, supporter.piece = 0.15, 60
    with chat() as terminal:
        terminal.until(PROMPT)
        shown = terminal.ask("I lost my job.")
        steps = ["reading what was said", "listening for the feeling", "choosing how to help", "Supporter  That"]
        assert all(step in shown for step in steps)
        assert [shown.index(step) for step in steps] == sorted(shown.index(step) for step in steps)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_reply_is_wrapped_between_words(chat: Chat, supporter: Supporter, columns: int) -> None:
    reply = (
        "It sounds as if you had been carrying this alone, and as if telling your parents made it real for good. " * 4
    )
    supporter.manner, supporter.text = "says", reply
    with chat(columns=columns) as terminal:
        terminal.until(PROMPT)
        shown = terminal.ask("I lost my job.")
        body = shown[shown.index("Supporter  ") : shown.index("no reasoning")].removeprefix("Supporter  ")
        lines = [line.strip() for line in body.splitlines() if line.strip()]
        assert len(lines) > 4
        assert " ".join(lines) == reply.strip()  # joined by spaces it is the reply: no word was broken
        assert max(map(len, body.splitlines())) <= min(columns, 88)


def test_why_pin_and_unpin(chat: Chat) -> None:
    with chat("--pin", "stage=comforting") as terminal:
        assert "Pinned: stage=comforting." in terminal.until(PROMPT)
        assert "Nothing has been answered yet." in terminal.ask("/why")
        assert "comforting · shame 4/5 · question" in terminal.ask("I lost my job.")
        why = terminal.ask("/why")
        assert all(text in why for text in WORDS["en"].values())
        assert "2 What they feel   negative · shame · 4" in why
        assert "Pinned: stage=comforting, strategy=reflection of feelings, emotion" not in terminal.ask("/pin")
        pinned = terminal.ask("/pin strategy=reflection of feelings emotion=fear")
        assert "Pinned: stage=comforting, emotion=fear, strategy=reflection of feelings." in pinned
        assert "comforting · fear 4/5 · reflection of feelings" in terminal.ask("I told nobody.")
        assert "Pinned: stage=comforting, strategy=reflection of feelings." in terminal.ask("/unpin emotion")
        assert "unknown pin 'mood'" in terminal.ask("/unpin mood")
        assert "Pinned: nothing." in terminal.ask("/unpin")
        assert "exploration · shame 4/5 · question" in terminal.ask("And now?")
        assert "Did you mean 'question'?" in terminal.ask("/pin strategy=questoin")
        assert "contradict each other" in terminal.ask("/pin sentiment=positive emotion=shame")
        assert "Pinned: nothing." in terminal.ask("/pin")
        assert not any(tag in terminal.text for tag in TAGS)


def test_again_and_edit(chat: Chat, supporter: Supporter) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        assert "Nothing has been said yet." in terminal.ask("/again")
        assert "alone 1." in terminal.ask("I lost my job.")
        shown = terminal.ask("/again strategy=affirmation and reassurance")
        assert "alone 2." in shown and "affirmation and reassurance" in shown
        assert "Write /edit STEP TEXT" in terminal.ask("/edit emotion")
        assert "there is no step 'mood'" in terminal.ask("/edit mood They are angry.")
        shown = terminal.ask("/edit emotion They are angry with the firm, not ashamed.")
        assert "alone 3." in shown and "not complete" not in shown
        why = terminal.ask("/why")
        assert "They are angry with the firm, not ashamed." in why and WORDS["en"]["history"] in why
        assert "a pin is written key=value" in terminal.ask("/again please")
    assert [body["messages"][-1]["content"] for body in supporter.bodies] == ["I lost my job."] * 3


def test_save_new_help_and_unknown_commands(chat: Chat, supporter: Supporter, tmp_path: Path) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        terminal.ask("I lost my job.")
        assert "Write /save FILE." in terminal.ask("/save")
        assert "Saved to [mine].json." in terminal.ask("/save [mine].json")
        assert "[mine].json exists; choose another name, nothing was overwritten." in terminal.ask("/save [mine].json")
        assert "There is no command /whi. /help lists them." in terminal.ask("/whi")
        helped = terminal.ask("/help")
        assert all(f"/{name}" in helped for name in ("why", "again", "edit", "pin", "unpin", "save", "new", "quit"))
        assert "Forgotten." in terminal.ask("/new")
        assert "Nothing has been answered yet." in terminal.ask("/why")
        terminal.ask("Hello.")
        assert terminal.leave("/quit\n") == 0
        assert "Take care." in terminal.text
    assert [message["content"] for message in supporter.bodies[-1]["messages"][1:]] == ["Hello."]
    saved = tmp_path / "[mine].json"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert json.loads(saved.read_text())["turns"][0]["said"] == "I lost my job."
    assert list(tmp_path.rglob("*")) == [saved]


def test_a_hostile_server_does_not_reach_the_terminal_nor_end_the_conversation(
    chat: Chat, supporter: Supporter
) -> None:
    with chat("--timeout", "3") as terminal:
        terminal.until(PROMPT)

        def hears(text: str, manner: str = "says", status: int = 200) -> str:
            supporter.manner, supporter.text, supporter.status = manner, text, status
            return " ".join(terminal.ask("I lost my job.").split())

        supporter.piece = 3
        before = len(terminal.raw)
        shown = hears("\x1b]0;owned\x07\x1b[2J\x1b[31mStay\x1b[0m \x9b2Kcalm\r\u202eback\x08\x08 [bold]now[/bold].")
        new = terminal.raw[before:]
        assert b"\x1b]0;" not in new and b"\x1b[2J" not in new and b"\x1b[31m" not in new and b"\x07" not in new
        assert "\u202e" not in shown and "\x9b" not in shown and "\x08" not in shown
        assert "Stay 2Kcalm back [bold]now[/bold]." in shown
        assert "not complete: there is no <think> block" in shown

        shown = hears("<think><history>x</history></think>Hello <script>alert(1)</script></think> there")
        assert "Hello alert(1) there" in shown and "<script>" not in shown and "</think>" not in shown
        assert "not complete" in shown

        assert "The model sent nothing. /again asks once more." in hears("", "nothing")
        assert "There was thinking, but no reply." in hears("<think>\n<history>\nHm.\nStage: exploration\n</history>")
        assert "did not stop, and was cut after 12,000" in hears("on and on ", "endless")
        assert "did not stop, and was cut after 12,000" in hears("<think>", "endless")
        assert "the connection failed" in hears("", "cut")
        shown = hears('{"error": {"message": "\x1b[2Joverloaded"}}'.replace("\x1b", "\\u001b"), "raw", 503)
        assert "503: overloaded" in shown and "Your message is kept: /again" in shown
        assert "makes no sense" in hears("x" * 600_000, "raw")
        assert "OPENAI_API_KEY" in hears("no", "raw", 401)

        supporter.reset()
        assert "That sounds heavy to carry alone 1." in terminal.ask("/again")
        assert supporter.bodies[-1]["messages"][-1]["content"].endswith("I lost my job.")
        assert terminal.leave() == 0
        assert "Traceback" not in terminal.text
        assert b"\x1b[2J" not in terminal.raw


def test_ctrl_c_stops_an_answer_and_at_the_prompt_it_leaves(chat: Chat, supporter: Supporter) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        for _ in range(2):  # the second time as well as the first
            supporter.manner, supporter.text = "hang", ""
            terminal.press("I lost my job.\n")
            terminal.until("thinking")
            time.sleep(0.2)
            terminal.press("\x03")
            assert "Stopped." in terminal.until(PROMPT)
        supporter.manner = "contract"
        assert "That sounds heavy to carry alone" in terminal.ask("/again")
        assert terminal.leave("\x03") == 0
        assert "Take care." in terminal.text and "Traceback" not in terminal.text


def test_an_empty_line_asks_nothing_and_the_arrow_brings_the_last_line_back(chat: Chat, supporter: Supporter) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        terminal.ask("")
        terminal.ask("   ")
        assert supporter.bodies == []
        terminal.ask("I lost my job.")
        terminal.ask("\x1b[A")
    assert [body["messages"][-1]["content"] for body in supporter.bodies] == ["I lost my job."] * 2


def test_chinese(chat: Chat, supporter: Supporter) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        shown = terminal.ask("我丢了工作，家里人还不知道。")
        assert "支持者  一个人扛着这些，一定很累 1。" in shown and "探索 · 羞耻 4/5 · 提问" in shown
        assert "怎样有帮助   提问" in terminal.ask("/why")
        assert "Pinned: strategy=question." in terminal.ask("/pin 策略=提问")
        assert "Pinned: nothing." in terminal.ask("/unpin 策略")
        supporter.delay, supporter.piece = 0.15, 25
        shown = terminal.ask("/again")
        assert all(words in shown for words in ("正在回看说过的话", "正在体会感受", "正在想怎样帮上忙", "支持者  "))
        supporter.manner, supporter.text, supporter.delay = "says", "好。", 0.0
        assert "（不完整：" in terminal.ask("然后呢？")


def test_a_connection_that_was_closed_while_the_person_wrote(chat: Chat, supporter: Supporter) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        assert "alone 1." in terminal.ask("Hello.")
        time.sleep(0.6)  # the server closes the connection while the person writes
        assert "alone 2." in terminal.ask("I lost my job.")
    assert len(supporter.bodies) == 2


@pytest.mark.parametrize("said", ["I lost my job.\n/why\n", "I lost my job."])
def test_lines_from_a_pipe(supporter: Supporter, environment: dict[str, str], said: str) -> None:
    command = [COMPEER, "chat", "--model", "openai:kind-7b", "--base-url", supporter.base_url]
    done = subprocess.run(
        command, input=said.encode() + b"\n\xff\xfe\n", env=environment, capture_output=True, timeout=60
    )
    shown = done.stdout.decode()
    assert done.returncode == 0 and done.stderr == b""
    assert "You  I lost my job." in shown and "That sounds heavy to carry alone 1." in shown
    assert "\x1b" not in shown and "Take care." in shown
    assert supporter.bodies[-1]["messages"][-1]["content"] == "\ufffd\ufffd"


def test_a_hangup_ends_it_quietly(chat: Chat) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        terminal.process.send_signal(signal.SIGHUP)
        assert terminal.process.wait(30) == -signal.SIGHUP
        assert "Traceback" not in terminal.text


def test_a_pasted_text_is_one_message_and_tab_completes(chat: Chat, supporter: Supporter) -> None:
    with chat() as terminal:
        terminal.until(PROMPT)
        terminal.press("\x1b[200~I lost my job.\nI told nobody.\x1b[201~\n")
        terminal.until("alone 1.")
        terminal.until(PROMPT)
        assert supporter.bodies[-1]["messages"][-1]["content"] == "I lost my job.\nI told nobody."
        terminal.press("/pi\t str\trefl\t\n")
        assert "Pinned: strategy=reflection of feelings." in terminal.until(PROMPT)
    assert len(supporter.bodies) == 1


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("/", "/why /again /edit /pin /unpin /think /help /save /new /quit"),
        ("/pin s", "stage= sentiment= strategy="),
        ("/pin strategy=aff", "strategy=affirmation and reassurance"),
        ("/pin strategy=affirmation and r", "reassurance"),
        ("/pin strategy=question int", "intensity="),
        ("/again intensity=", "intensity=1 intensity=2 intensity=3 intensity=4 intensity=5"),
        ("/pin 策略=提供", "策略=提供建议 策略=提供信息"),
        ("/unpin em", "emotion"),
        ("/edit hi", "history"),
        ("/edit emotion hi", ""),
        ("/think b", "brief"),
        ("s", ""),
        ("strategy=", ""),
    ],
)
def test_what_tab_offers(line: str, offered: str) -> None:
    found = completions(line, line.rpartition(" ")[2])
    assert " ".join(found) == offered


def test_a_paste_is_one_message_without_readline_too(
    chat: Chat, supporter: Supporter, environment: dict[str, str], tmp_path: Path
) -> None:
    environment |= hide(tmp_path, "readline")
    with chat() as terminal:
        terminal.until(PROMPT)
        terminal.press("I lost my job.\nI told nobody.\n\nNot even my wife.\n")
        terminal.until("alone 1.")
        terminal.until(PROMPT)
        assert supporter.bodies[-1]["messages"][-1]["content"] == "I lost my job.\nI told nobody.\n\nNot even my wife."
        terminal.ask("And now?")
    assert len(supporter.bodies) == 2
