"""The conversation page in a real browser, against a real `compeer studio` and a scripted model."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conversation.supporter import Supporter, running
from tests.studio.browsing import COMMON_PHONE, DESK, PHONE, chromium, window
from tests.studio.talking import Running, idle, measured_adapters, open_room, reply, send, talking

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

STILL = {"reduced_motion": "reduce"}


@pytest.fixture(scope="module")
def server() -> Iterator[Supporter]:
    with running() as supporter:
        yield supporter


@pytest.fixture(scope="module")
def studio(server: Supporter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("talk")
    with talking(home, server, COMPEER_ADAPTERS=str(measured_adapters(home))) as found:
        yield found


@pytest.fixture
def supporter(server: Supporter) -> Supporter:
    server.reset()
    return server


def photo(kind: str = "PNG") -> bytes:
    from PIL import Image

    made = io.BytesIO()
    Image.new("RGB", (2000, 1000), (90, 140, 120)).save(made, kind)
    return made.getvalue()


def fits(page: Any) -> bool:
    """Nothing is wider than the screen, and the place to write is on it and covered by nothing."""
    return bool(
        page.evaluate(
            "(() => { const box = document.querySelector('#message').getBoundingClientRect();"
            " const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);"
            " return document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight"
            " && box.bottom <= innerHeight && top.id === 'message'; })()"
        )
    )


def test_a_whole_conversation(opened: Any, studio: Running, supporter: Supporter, tmp_path: Path) -> None:
    with window(opened, studio.address, accept_downloads=True) as (page, wrong):
        open_room(page)
        notice = page.locator(".notice")
        for words in ("an AI: not a person", "in memory only", "reach a person now", "116 123"):
            assert words in notice.inner_text()

        # send, and watch it think and speak
        supporter.delay, supporter.piece = 0.02, 12
        send(page, "I lost my job.", wait=False)
        seen = page.evaluate_handle("[]")
        page.evaluate(
            "(seen) => new MutationObserver(() => { const now = document.querySelector('.coming .status')?.textContent;"
            " const said = document.querySelector('.coming .reply')?.textContent;"
            " if (now && seen.at(-1) !== now) seen.push(now); if (said) seen.said = (seen.said ?? new Set()).add(said); })"
            ".observe(document.querySelector('#turns'), { subtree: true, childList: true, characterData: true })",
            seen,
        )
        assert page.get_by_role("button", name="Stop").is_visible() and page.locator("#send").is_hidden()
        idle(page)
        thought = page.evaluate("(seen) => [...seen]", seen)
        assert thought[-3:] == ["Listening for the feeling", "Choosing how to help", "Answering"]
        assert page.evaluate("(seen) => seen.said.size", seen) > 3, "word by word"
        assert reply(page) == "That sounds heavy to carry alone 1."
        assert page.locator(".chips").inner_text().startswith("exploration · shame 4/5 · question")
        assert page.locator("#heard").inner_text() == reply(page), "someone who listens hears it once, whole"
        supporter.delay = 0.0

        # unfold
        panel = page.locator("#panel")
        assert panel.is_hidden()
        page.get_by_role("button", name="Why?").click()
        assert [one.inner_text() for one in panel.locator("h3").all()[:3]] == [
            "1 What you face", "2 What you feel", "3 What would help",
        ]  # fmt: skip
        assert "told nobody at home" in panel.inner_text() and panel.locator(".dots").inner_text() == "●●●●○"

        # edit step 2 and continue: what will change is said, and the old answer stays beside the new one
        panel.get_by_role("button", name="Edit What you feel").click()
        assert [one.inner_text() for one in panel.locator(".effect li").all()] == [
            "What you face: stays the same", "What you feel: in your words", "What would help: thought through again",
            "The reply: written again. The current one stays beside it.",
        ]  # fmt: skip
        panel.locator("textarea").fill("Relieved, to their own surprise.")
        panel.locator("[data-label=emotion]").select_option("relief")
        panel.get_by_role("button", name="Continue from here").click()
        page.locator(".answer.old .chips button").first.wait_for()
        idle(page)
        assert reply(page).endswith("2.") and page.locator(".answer.old .reply").inner_text().endswith("1.")
        boxes = [page.locator(one).bounding_box() for one in (".answer:not(.old)", ".answer.old")]
        assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"], "side by side"
        assert (
            "Relieved, to their own surprise." in panel.inner_text()
            and "relief 4/5" in page.locator(".chips").first.inner_text()
        )

        # pin, and answer again with another strategy
        panel.locator("[data-pin=stage]").focus()
        panel.locator("[data-pin=stage]").select_option("action")
        panel.locator(".pin-row.on").wait_for()
        assert page.evaluate("document.activeElement.dataset.pin") == "stage", "the focus stays where it was"
        page.locator(".turn .again summary").click()
        page.locator(".turn .again select").select_option("information")
        page.locator(".turn .again").get_by_role("button", name="Ask").click()
        page.locator(".more-answers").wait_for()
        idle(page)
        assert "action · shame 4/5 · information" in page.locator(".answer:not(.old) .chips").first.inner_text()
        page.locator(".answers .answer.old").get_by_role("button", name="Continue with this one").click()
        page.locator(".answer:not(.old) .reply", has_text="2.").first.wait_for()
        panel.get_by_role("button", name="Release all").click()
        panel.get_by_text("None. The model decides.").wait_for()

        # the curve, another model, a second message
        assert page.locator("#curve").is_hidden()
        page.locator("#model").select_option("1")
        send(page, "Thank you.")
        assert supporter.bodies[-1]["model"] == "other-7b" and "other-7b" in page.locator(".chips").last.inner_text()
        assert page.locator("#curve svg").get_attribute("aria-label") == "1: relief 4/5; 2: shame 4/5"

        # save, reload, delete
        page.locator("#save summary").click()
        with page.expect_download() as saved:
            page.get_by_role("link", name="JSON").click()
        saved.value.save_as(tmp_path / "kept.json")
        turns = json.loads((tmp_path / "kept.json").read_text())["turns"]
        assert [turn["said"] for turn in turns] == ["I lost my job.", "Thank you."] and len(turns[0]["others"]) == 2
        page.reload()
        page.locator(".turn").nth(1).wait_for()
        page.get_by_role("button", name="Delete all").click()
        page.locator(".turn").first.wait_for(state="detached")
        page.reload()
        page.locator("#room[data-ready]").wait_for()
        assert page.locator(".turn").count() == 0 and wrong == []


def test_in_chinese_on_a_phone_by_keyboard(opened: Any, studio: Running, supporter: Supporter) -> None:
    options = {"viewport": PHONE, "locale": "zh-CN", "color_scheme": "dark", **STILL}
    with window(opened, studio.address, **options) as (page, wrong):
        open_room(page)
        assert "12356" in page.locator(".notice").inner_text() and fits(page)
        page.locator("#message").focus()
        # while a word is being composed Enter does not send
        page.evaluate(
            "document.querySelector('#message').dispatchEvent(new KeyboardEvent('keydown',"
            " { key: 'Enter', isComposing: true, bubbles: true, cancelable: true }))"
        )
        page.keyboard.insert_text("我丢了工作。")
        page.keyboard.press("Enter")
        page.locator(".turn .chips").wait_for()
        idle(page)
        assert page.locator(".turn").count() == 1 and reply(page) == "一个人扛着这些，一定很累 1。"
        assert page.locator(".chips").inner_text().startswith("探索 · 羞耻 4/5 · 提问") and fits(page)
        page.get_by_role("button", name="为什么").focus()
        page.keyboard.press("Enter")
        panel = page.locator("#panel")
        assert "家里人还不知道" in panel.inner_text() and page.evaluate("document.activeElement.id") == "panel"
        box = panel.bounding_box()
        assert box["x"] == 0 and box["width"] == PHONE["width"] and box["y"] > 60, "a sheet from below"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "关闭"
        panel.get_by_role("button", name="修改 你的感受").press("Enter")
        page.keyboard.press("Control+A")
        page.keyboard.insert_text("对方其实松了一口气。")
        panel.get_by_role("button", name="从这里继续").press("Enter")
        page.locator(".answer.old .chips button").first.wait_for()
        idle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.keyboard.press("Escape")
        assert panel.is_hidden() and fits(page)
        assert page.evaluate("document.activeElement.className").endswith("why"), "the focus goes back"
        page.get_by_role("button", name="English").click()
        page.locator(".turn .chips").first.wait_for()
        assert (
            page.locator(".chips").first.inner_text().startswith("exploration · shame 4/5 · question") and wrong == []
        )


def test_the_helpline_stands_above_the_words_and_covers_nothing(
    opened: Any, studio: Running, supporter: Supporter
) -> None:
    with window(opened, studio.address, viewport=PHONE, **STILL) as (page, wrong):
        open_room(page)
        supporter.manner = "hang"
        send(page, "I want to kill myself.", wait=False)
        banner = page.locator("#banner")
        banner.wait_for()
        assert (
            banner.locator(".lines a.phone").first.get_attribute("href") == "tel:116123"
            and "24/7" in banner.inner_text()
        )
        assert banner.get_by_role("link", name="website").first.get_attribute("href") == "https://www.samaritans.org"
        page.locator(".turn .answer:not(.coming)").wait_for()
        idle(page)
        assert "How close are these thoughts" in reply(page) and fits(page), "our own words, whatever the model does"
        supporter.reset()
        send(page, "Sorry, I was joking.")
        assert banner.is_visible() and fits(page)
        page.locator("#scroll").evaluate("(one) => (one.scrollTop = 0)")
        page.get_by_label("Your country").select_option("NZ")
        banner.get_by_text("1737", exact=True).wait_for()
        page.reload()
        banner.wait_for()
        assert wrong == []


def test_at_high_risk_there_are_words_and_help_alone(opened: Any, studio: Running, supporter: Supporter) -> None:
    analysis = ".chips span, .why, .again, #curve, #think, #panel"
    with window(opened, studio.address, viewport=PHONE, **STILL) as (page, wrong):
        open_room(page)
        for text in ("I lost my job.", "It is getting worse."):
            send(page, text)
        assert page.locator("#curve").is_visible() and page.locator(".again").count() == 1
        page.get_by_role("button", name="Why?").last.click()
        send(page, "I want to kill myself.")
        assert page.locator("#banner").is_visible() and fits(page)
        assert [one.inner_text() for one in page.locator(analysis).all() if one.is_visible()] == []
        page.reload()
        page.locator("#room[data-ready]").wait_for()
        assert [one.inner_text() for one in page.locator(analysis).all() if one.is_visible()] == []
        assert wrong == []


def test_in_an_emergency_the_number_stands_above_everything(opened: Any, studio: Running, supporter: Supporter) -> None:
    def emergency(route: Any) -> None:
        state = route.fetch().json()
        route.fulfill(json=state | {"level": "emergency", "urgent": True, "something": "more"})

    with window(opened, studio.address, viewport=PHONE, **STILL) as (page, wrong):
        open_room(page)
        send(page, "I want to kill myself.")
        page.route("**/talk/state", emergency)
        page.reload()
        page.locator("#room[data-ready]").wait_for()
        banner = page.locator("#banner.emergency")
        assert banner.locator("a").first.get_attribute("href") == "tel:999", "the number to call comes first"
        top = "document.querySelector('#banner').getBoundingClientRect().top"
        assert page.evaluate(top) == 0 and fits(page), "above everything, and the input is free"
        assert wrong == []


def test_help_is_in_reach_on_every_page_without_a_script(opened: Any, studio: Running) -> None:
    for viewport in (PHONE, DESK):
        with window(opened, studio.address, viewport=viewport, java_script_enabled=False) as (page, wrong):
            for path in ("/", "/talk", "/nothing"):
                page.goto(path)
                control = page.locator("#help-now")
                control.locator("summary", has_text="Get help now").click()
                assert control.locator(".danger a").first.get_attribute("href") == "tel:999"
                assert control.locator(".lines a.phone").first.get_attribute("href") == "tel:116123"
                assert control.locator(".help-card").bounding_box()["width"] <= viewport["width"]
            assert page.goto("/talk").ok
            assert page.locator(".notice a[href='tel:116123']").is_visible()
            assert [one for one in wrong if "404" not in one] == []


def test_home_and_talk_say_the_same_about_what_is_kept(opened: Any, studio: Running) -> None:
    sentence = "A conversation stays in memory only. It is gone when you delete it, after two hours without use"
    with window(opened, studio.address) as (page, _):
        for path in ("/", "/talk"):
            page.goto(path)
            assert sentence in page.locator("main").inner_text()


def test_a_stopped_message_stays_in_sight_while_the_next_is_answered(
    opened: Any, studio: Running, supporter: Supporter
) -> None:
    with window(opened, studio.address) as (page, wrong):
        open_room(page)
        supporter.manner = "hang"
        send(page, "I lost my job.", wait=False)
        page.get_by_role("button", name="Stop").click()
        idle(page)
        send(page, "Are you there?", wait=False)
        page.locator(".answer.coming").wait_for()
        said = page.locator("#turns .said")
        assert said.all_inner_texts() == ["I lost my job.", "Are you there?"]
        # what a coming answer has shown stays when something else on the page changes
        page.evaluate("document.querySelector('#think').click()")
        page.locator("#panel [data-pin=stage]").select_option("action")
        page.locator("#panel .pin-row.on").wait_for()
        assert page.locator(".answer.coming").count() == 1
        assert said.all_inner_texts() == ["I lost my job.", "Are you there?"]
        supporter.reset()
        idle(page)
        assert said.all_inner_texts() == ["I lost my job.", "Are you there?"]
        page.reload()
        page.locator("#room[data-ready]").wait_for()
        assert said.all_inner_texts() == ["I lost my job.", "Are you there?"]
        page.locator("#save summary").click()
        with page.expect_download() as saved:
            page.get_by_role("link", name="text").click()
        assert "I lost my job." in saved.value.path().read_text(encoding="utf-8")
        assert wrong == []


def test_a_picture_goes_along_to_a_model_that_sees(opened: Any, studio: Running, supporter: Supporter) -> None:
    with window(opened, studio.address, **STILL) as (page, wrong):
        open_room(page)
        page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"no picture"})
        page.locator("#trouble", has_text="PNG, JPEG").wait_for()
        page.locator("#file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": photo()})
        page.locator("#attached img").wait_for()
        assert page.locator("#trouble").is_hidden()
        send(page, "This is my street.")
        image = supporter.bodies[-1]["messages"][-1]["content"][0]["image_url"]["url"]
        assert image.startswith("data:image/jpeg;base64,") and page.locator("#attached").is_hidden()
        shown = page.locator(".sent-pictures img")
        page.wait_for_function("document.querySelector('.sent-pictures img').naturalWidth > 0")
        assert shown.evaluate("(one) => one.naturalWidth") == 1280, "made smaller before it was sent"
        page.locator("#model").select_option("2")
        page.locator("#picture[aria-disabled=true]").wait_for()
        page.locator("#picture").click(force=True)
        page.locator("#trouble", has_text="cannot see pictures").wait_for()
        assert wrong == []


HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"><style>*{display:none}</style>"


def test_a_hostile_model_leaves_the_page_whole(opened: Any, studio: Running, supporter: Supporter) -> None:
    with window(opened, studio.address, viewport=PHONE, **STILL) as (page, wrong):
        open_room(page)
        supporter.manner, supporter.text, supporter.piece = "says", HOSTILE, 400
        send(page, "Hello.")
        assert (
            reply(page) == "document.title='taken'*{display:none}"
            and "was removed" in page.locator(".turn").last.inner_text()
        )
        supporter.text = "<think><history>" + "x" * 900 + "<emotion>" + "\u202e" * 40
        send(page, "Are you there?")
        page.get_by_role("button", name="Why?").last.click()
        page.locator("#panel").get_by_text("incomplete").wait_for()
        page.keyboard.press("Escape")
        supporter.manner, supporter.text = "endless", "W" * 500
        send(page, "Tell me a long story about a garden, please.")
        assert "cut off here" in page.locator(".turn").last.inner_text()
        page.get_by_role("button", name="Show all").click()
        assert len(reply(page)) > 11_000
        supporter.manner = "nothing"
        send(page, "What do you think of my garden?")
        assert "sent nothing." in page.locator(".turn").last.inner_text()
        for manner, status in (("cut", 200), ("raw", 400)):
            supporter.manner, supporter.text, supporter.status = manner, "broken", status
            send(page, f"Please try again, number {status}.", wait=False)
            page.locator("#trouble", has_text="did not answer").wait_for()
            idle(page)
            assert page.get_by_role("button", name="Get an answer").is_visible()
            supporter.reset()
            page.get_by_role("button", name="Get an answer").click()
            page.locator(".waiting").wait_for(state="detached")
            idle(page)
            assert reply(page) and not page.locator("#trouble").is_visible()
        assert fits(page) and page.title() == "Talk · Compeer studio"
        assert page.locator("#turns script, #turns img, #turns style").count() == 0 and wrong == []


def test_on_a_phone_the_conversation_has_most_of_the_screen(opened: Any, studio: Running, supporter: Supporter) -> None:
    share = "document.querySelector('#scroll').clientHeight / innerHeight"
    for locale, words in (
        ("en-GB", ("I lost my job.", "I want to kill myself.", "I have taken all my pills just now.")),
        ("zh-CN", ("我丢了工作。", "我不想活了。", "我刚刚把药全吃了。")),
    ):
        with window(opened, studio.address, viewport=COMMON_PHONE, locale=locale, **STILL) as (page, wrong):
            open_room(page)
            assert page.evaluate(share) >= 0.6
            for text in words:
                send(page, text)
                assert page.evaluate(share) >= 0.6 and fits(page), (text, page.evaluate(share))
            assert page.locator("#banner.emergency a").first.get_attribute("href").startswith("tel:")
            fold = page.locator("#banner .banner-more")
            assert fold.get_attribute("open") is None
            fold.locator("summary").click()
            assert fold.get_by_role("link").last.is_visible() and fits(page), "what is folded is one tap away"
            assert wrong == []


def test_help_stays_in_reach_over_panel_and_menus(opened: Any, studio: Running, supporter: Supporter) -> None:
    """Nothing covers the button, wherever one is on the page."""
    free = (
        "(() => { const box = document.querySelector('#help-now summary').getBoundingClientRect();"
        " const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);"
        " return box.top >= 0 && box.bottom <= innerHeight && Boolean(top.closest('#help-now')); })()"
    )
    with window(opened, studio.address, viewport=PHONE, **STILL) as (page, wrong):
        open_room(page)
        for text in ("I lost my job.", "It goes on and on."):
            send(page, text)
        assert page.evaluate(free)
        page.get_by_role("button", name="Options").click()
        for menu in ("list", "ratings", "save"):
            page.locator(f"#{menu} > summary").click()
            assert page.locator(f"#{menu} .menu").is_visible() and page.evaluate(free)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Why?").last.click()
        assert page.locator("#panel").is_visible() and page.evaluate(free)
        page.locator("#help-now summary").click()
        assert page.locator("#help-now a[href='tel:999']").is_visible() and wrong == []


def test_it_is_offered_to_think_and_the_thinking_streams(opened: Any, studio: Running, supporter: Supporter) -> None:
    with window(opened, studio.address) as (page, wrong):
        open_room(page)
        page.get_by_role("button", name="How it thinks").click()
        panel = page.locator("#panel")
        panel.get_by_role("radio", name="none").check()
        offer = panel.get_by_role("button", name="Let it think briefly")
        offer.wait_for()
        supporter.manner, supporter.text = "says", "I am here."
        send(page, "I lost my job.")
        assert panel.get_by_text("It did not think before answer 1.").is_visible()
        assert panel.locator(".thought").count() == 0, "no empty steps"
        offer.click()
        panel.get_by_role("radio", name="brief").and_(page.locator(":checked")).wait_for()
        supporter.reset()
        page.evaluate(
            "() => { window.seen = { inline: new Set(), panel: new Set() }; new MutationObserver(() => {"
            " const inline = document.querySelector('.coming .thinking')?.textContent;"
            " const panel = document.querySelector('#panel [data-step=history] .thought-text')?.textContent;"
            " if (inline) seen.inline.add(inline); if (panel) seen.panel.add(panel); })"
            ".observe(document.body, { subtree: true, childList: true, characterData: true }); }"
        )
        supporter.delay, supporter.piece = 0.02, 8
        send(page, "And nobody knows.")
        inline, beside = page.evaluate("[seen.inline.size, seen.panel.size]")
        assert inline > 5 and beside > 3, "word by word, in the conversation and in the panel"
        assert page.locator(".coming").count() == 0 and panel.locator(".thought").count() == 3
        page.reload()
        page.locator("#room[data-ready]").wait_for()
        page.locator("#think").click()
        assert panel.get_by_role("radio", name="brief").is_checked(), "remembered for the visit"
        assert wrong == []


def test_pins_and_languages_are_said_beside_the_model(opened: Any, studio: Running, supporter: Supporter) -> None:
    with window(opened, studio.address, **STILL) as (page, wrong):
        open_room(page)
        page.locator("#think").click()
        assert "kind-7b: how far a pin steers the words of a reply has not been measured." in (
            page.locator(".steering").inner_text()
        )
        page.locator("#message").fill("我丢了工作。")
        assert page.locator("#lacks").is_hidden(), "nothing is known of what this model knows"
        page.locator("#model").select_option("2")
        page.locator("#lacks", has_text="little Chinese").wait_for()
        assert "little Chinese" in page.locator("#model option").nth(2).inner_text()
        page.locator("#message").fill("I lost my job.")
        assert page.locator("#lacks").is_hidden()
        steers = page.locator(".steering", has_text="steers the reply in 74 % of tries")
        steers.wait_for()
        assert "66 to 81 %" in steers.inner_text() and "blind readers: 2" in steers.inner_text()
        page.get_by_role("button", name="中文").click()
        page.locator("#room[data-ready]").wait_for()
        assert "不太懂中文" in page.locator("#lacks").inner_text(), "before anything is written"
        assert wrong == []


def focused(page: Any) -> str:
    """What a screen reader calls the element with the focus."""
    return str(page.locator(":focus").aria_snapshot())


def tab_to(page: Any, words: str, key: str = "Tab") -> None:
    """Press a key until the focus is on what is called so."""
    for _ in range(60):
        page.keyboard.press(key)
        if words in focused(page):
            return
    raise AssertionError(f"{words} cannot be reached by {key}")


def test_a_whole_conversation_by_keyboard_alone(opened: Any, studio: Running, supporter: Supporter) -> None:
    """Write, rate, edit one's message, go back, read the thinking, pin, begin another, delete all: no mouse."""

    def answered(count: int) -> None:
        page.locator(".turn .answer:not(.coming, .old)").nth(count - 1).wait_for()
        idle(page)

    with window(opened, studio.address, **STILL) as (page, wrong):
        open_room(page)
        tab_to(page, 'textbox "Your message"')
        page.keyboard.type("I lost my job.")
        page.keyboard.press("Enter")
        answered(1)
        assert 'textbox "Your message"' in focused(page), "one can write on at once"
        page.keyboard.type("Nobody knows.")
        page.keyboard.press("Enter")
        answered(2)

        tab_to(page, 'button "Helpful"', "Shift+Tab")
        page.keyboard.press("Space")
        page.locator(".thumb[aria-pressed=true]").wait_for()
        assert 'button "Helpful" [pressed]' in focused(page)
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert 'button "Only you see this. Keep it?"' in focused(page)
        page.keyboard.press("Enter")
        assert 'radio "No, keep nothing" [checked]' in focused(page)
        page.keyboard.press("ArrowDown")
        page.locator(".thumbs", has_text="Kept").wait_for()
        page.keyboard.press("ArrowUp")
        page.get_by_role("button", name="Only you see this. Keep it?").wait_for()
        page.keyboard.press("Escape")

        tab_to(page, 'button "Edit your message 1"', "Shift+Tab")
        page.keyboard.press("Enter")
        assert 'textbox "Your message"' in focused(page)
        page.keyboard.press("Control+A")
        page.keyboard.type("I was fired.")
        tab_to(page, 'button "Send again"')
        page.keyboard.press("Enter")
        page.locator(".earlier").wait_for()
        idle(page)
        assert page.locator("#turns > li > .said").all_inner_texts() == ["I was fired."]
        tab_to(page, "Before you edited this message", "Shift+Tab")
        page.keyboard.press("Enter")
        tab_to(page, 'button "Go back to this version"')
        page.keyboard.press("Enter")
        page.locator(".turn").nth(1).wait_for()
        assert page.locator("#turns > li > .said").all_inner_texts() == ["I lost my job.", "Nobody knows."]

        page.locator("#message").focus()
        tab_to(page, 'button "How it thinks"')
        page.keyboard.press("Enter")
        assert 'complementary "How it thinks"' in focused(page)
        tab_to(page, 'button "Pin What would help"')
        page.keyboard.press("Enter")
        page.locator(".pin-row.on").wait_for()
        assert 'button "Release What would help" [pressed]' in focused(page)
        page.keyboard.press("Escape")
        assert 'button "How it thinks"' in focused(page)
        tab_to(page, "Conversations")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert 'button "New conversation"' in focused(page)
        page.keyboard.press("Enter")
        page.locator(".turn").first.wait_for(state="detached")
        assert 'textbox "Your message"' in focused(page)
        page.keyboard.type("My cat is ill.")
        page.keyboard.press("Enter")
        answered(1)
        tab_to(page, "Conversations")
        page.keyboard.press("Enter")
        tab_to(page, 'button "I lost my job."')
        page.keyboard.press("Enter")
        page.locator(".turn").nth(1).wait_for()
        tab_to(page, 'button "Delete all"')
        page.keyboard.press("Enter")
        page.locator(".turn").first.wait_for(state="detached")
        assert page.locator("#heard").inner_text() == "All conversations are deleted."
        assert 'textbox "Your message"' in focused(page) and wrong == []
