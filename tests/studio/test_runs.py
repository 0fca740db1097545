"""The room Runs over real HTTP: what is found, shown and refused, also while it is being written."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.evals.made_runs import judge_study, reward_run, sage_run
from tests.studio.browsing import window
from tests.studio.material import PROMPTS, REPORT, evaluation, judge_run, policy_run, sample
from tests.studio.serving import TOKEN, browser_of, csrf, runs_studio

from compeer.evals.report import write_report
from compeer.evals.report.charts import thin
from compeer.studio.rooms.runs.reading import RunLibrary, SampleLog, by_prompt
from compeer.training.metrics import MetricLog

XSS = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;\u202e"


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with browser_of(address) as found:
        yield found


def links(page: str) -> dict[str, str]:
    """Runs on the list, by name."""
    return {
        name: path for path, name in re.findall(r'<h2 class="anywhere"><a href="(/runs/[0-9a-f]{12})">(.*?)</a>', page)
    }


def test_the_list_shows_every_run_with_its_small_curves(client: httpx.Client) -> None:
    page = client.get("/runs").text
    assert links(page).keys() == {
        "policy/paper-seed-3",
        "policy/tau-2",
        "judges/unified-0.5b",
        "policy/paper-seed-3/sage",
        "evaluations/sage-base",
    }
    assert page.count('<svg class="spark s0"') == 9
    for told in (
        "Reward",
        "Distinct-2",
        "Entropy",
        "Loss",
        "1 alert",
        "running",
        "finished",
        "step 240",
        "sentient",
    ):
        assert told in page, told
    found = links(client.get("/runs", params={"q": "TAU"}).text)
    assert found.keys() == {"policy/tau-2"}
    assert "No matching run" in client.get("/runs", params={"q": XSS}).text
    assert "奖励" in client.get("/runs", headers={"accept-language": "zh"}).text


def test_a_run_shows_what_happened_in_it(client: httpx.Client) -> None:
    where = links(client.get("/runs").text)["policy/paper-seed-3"]
    page = client.get(where).text
    for told in (
        "The share of different word pairs", "step 180", "Part: history", "Second judge", "learning_rate: 1.0e-06",
        "Qwen2.5-7B-Instruct", "reward at last", "sentient", "95 % interval", "Reasoning", "exploration",
    ):  # fmt: skip
        assert told in page, told
    assert page.count('<svg class="chart"') == 13 and 'class="line held"' in page and "step 120" in page
    assert client.get(f"{where}?every=1").text.count('<svg class="chart"') == 16
    chosen = client.get(where, params=[("step", "52"), ("step", "9999")]).text
    assert re.findall(r'type="number" min="0" value="(\d+)"', chosen) == ["50", "240"]
    assert client.get(where, params={"step": "x"}).status_code == 422


def test_settings_of_an_evaluation_are_words_and_not_python(client: httpx.Client) -> None:
    page = client.get(links(client.get("/runs").text)["evaluations/sage-base"]).text
    facts = dict(re.findall(r'<dt class="anywhere">(.*?)</dt><dd>(.*?)</dd>', page))
    assert facts["counts"] == "seeker calls 1,812" and facts["grammar"] == "yes" and "judge" not in facts
    assert "{&#39;" not in page and "None" not in page


def test_a_report_is_sent_in_a_sandbox(client: httpx.Client) -> None:
    where = links(client.get("/runs").text)["policy/paper-seed-3/sage"]
    assert "Open the report" in client.get(where).text
    report = client.get(f"{where}/report")
    assert report.text == REPORT and report.headers["content-type"] == "text/html; charset=utf-8"
    policy = report.headers["content-security-policy"]
    assert (
        policy.startswith("sandbox allow-scripts allow-downloads;")
        and "allow-same-origin" not in policy
        and "default-src 'none'" in policy
    )
    other = links(client.get("/runs").text)["evaluations/sage-base"]
    assert client.get(f"{other}/report").status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/runs/../../etc/passwd", "/runs/..%2f..%2fetc%2fpasswd", "/runs/%2e%2e/%2e%2e/run.json/report", "/runs/policy%2fpaper-seed-3",
     "/static/../app.py", "/static/look/..%2f..%2fapp.py", "/static/look/../../app.py", "/static//etc/passwd", "/static/look/base.css%00"],
)  # fmt: skip
def test_an_address_names_no_file(address: str, path: str) -> None:
    with httpx.Client() as raw:
        request = raw.build_request("GET", address, headers={"accept": "text/html"})
        request.url = request.url.copy_with(raw_path=path.encode())
        answer = raw.send(request)
    assert answer.status_code == 404 and "root:" not in answer.text and "create_app" not in answer.text


def test_what_models_and_folders_say_is_shown_as_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>".replace("/", "∕")
    run = policy_run(tmp_path / "runs" / name, 12, evil=XSS)
    run.sample(sample(12, 9, XSS, False, 0.0))
    run.sample({"step": 12, "output": f"<think>{XSS}", "failure": XSS, "problems": [XSS], "parts": {XSS: 1.0}})
    run.alert({"step": 12, "alert": XSS})
    run.log({"step": 13, XSS: 1.0})
    evaluation(tmp_path / "runs" / name / "eval", XSS)
    with runs_studio(tmp_path / "data", runs=(tmp_path / "runs",)) as address, browser_of(address) as client:
        for path in ("/runs", *set(re.findall(r'href="(/runs/[0-9a-f]{12})"', client.get("/runs").text))):
            page = client.get(f"{path}?every=1&step=12").text
            assert "alert(1)" in page
            assert "<script>alert" not in page and "<img src=x" not in page and 'onerror=alert(2)>"' not in page


def test_half_written_and_damaged_runs_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run = judge_run(root / "half", 20)
    with (root / "half" / "metrics.jsonl").open("ab") as file:
        file.write(b'not json\n{"step": 21, "loss": 0.125}\n[1]\n{"step": 22, "loss": nul')
    (root / "damaged").mkdir()
    (root / "damaged" / "run.json").write_text('{"kind": "pol')
    (root / "odd").mkdir()
    (root / "odd" / "run.json").write_text('{"kind": "policy", "sessions": 3, "data": [], "base": 1, "config": {}}')
    (root / "odd" / "metrics.jsonl").write_text(
        '{"step": 1e400, "reward": 1e999, "loss": true}\n{"reward": 2}\n{"step": "a", "reward": -1e308}\n{"step": 5, "reward": 1e308}\n'
    )
    (root / "odd" / "samples.jsonl").write_text(
        '{"step": 1, "output": 5}\n{"output": "bare"}\n{"step": "x"}\n{"step": 1, "out'
    )
    (root / "empty").mkdir()
    (root / "empty" / "result.json").write_text("{}")
    (root / "cut").mkdir()
    (root / "cut" / "result.json").write_text('{"benchmark": "sa')
    with runs_studio(tmp_path / "data", runs=(root, tmp_path / "not there")) as address, browser_of(address) as client:
        page = client.get("/runs").text
        assert links(page).keys() == {"runs/half", "runs/damaged", "runs/odd", "runs/empty", "runs/cut"}
        assert "record unreadable" in page
        shown = {name: client.get(path) for name, path in links(page).items()}
        assert {answer.status_code for answer in shown.values()} == {200}
        assert "step 21" in shown["runs/half"].text and "left out: 2" in shown["runs/half"].text
        assert "cannot be read" in shown["runs/cut"].text
        # it goes on: the half line becomes whole, more comes, and the page follows
        with (root / "half" / "metrics.jsonl").open("ab") as file:
            file.write(b'l}\n{"step": 23, "loss": 0.0625}\n')
        assert "step 23" in client.get(links(page)["runs/half"]).text
        # and begins anew: a resumed run writes its log again
        shutil.copy(run.metrics_path, tmp_path / "copy")
        (tmp_path / "copy").replace(run.metrics_path)
        run.metrics_path.write_text('{"step": 4, "loss": 2}\n')
        assert "step 4<" in client.get(links(page)["runs/half"]).text


def test_state_follows_the_clock_and_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = judge_run(tmp_path / "one", 3)
    library = RunLibrary([tmp_path], tmp_path / "notes")
    (found,) = library.all().values()
    assert library.training_run(found).state == "writing"
    past = time.time() - 3600
    for name in ("metrics.jsonl", "run.json"):
        os.utime(tmp_path / "one" / name, (past, past))
    assert library.training_run(found).state == "resting"
    run.finish({})
    assert library.training_run(found).state == "finished"


def test_thinning_keeps_the_spike_and_the_mean() -> None:
    values = [0.0] * 5000
    values[2600] = 100.0
    few = thin(range(5000), values, 150)
    assert len(few.steps) == 150 and max(few.highs) == 100 and max(few.means) < 4 and few.steps == sorted(few.steps)
    assert thin([], [], 10).steps == []


def test_a_long_run_is_read_once_and_its_page_stays_small(tmp_path: Path) -> None:
    policy_run(tmp_path / "runs" / "long", 5000)
    with runs_studio(tmp_path / "data", runs=(tmp_path / "runs",)) as address, browser_of(address) as client:
        path = links(client.get("/runs").text)["long"]
        page = client.get(path)
        assert "step 5000" in page.text and len(page.content) < 150_000
        assert len(client.get("/runs").content) < 20_000
    metrics = MetricLog(tmp_path / "runs" / "long" / "metrics.jsonl")
    reads: list[int] = []
    take = metrics._lines._take
    metrics._lines._take = lambda place, line: (reads.append(place), take(place, line))[1]
    metrics.catch_up()
    metrics.catch_up()
    assert len(reads) == 5250 and len(metrics.column("reward") or ()) == 5000


def test_samples_of_a_step_are_found_by_their_place(tmp_path: Path) -> None:
    policy_run(tmp_path / "run", 50)
    samples = SampleLog(tmp_path / "run" / "samples.jsonl")
    samples.catch_up()
    assert samples.steps == [1, 10, 20, 30, 40, 50] and samples.spread() == [1, 20, 50]
    assert [samples.nearest(step) for step in (-5, 14, 16, 99)] == [1, 10, 20, 50]
    assert [one.id for one in samples.at(30)] == ["esconv-0#3", "esconv-1#3", "esconv-2#3"]
    whole = next(one for step in samples.steps for one in samples.at(step) if one.thoughts)
    assert [thought.step for thought in whole.thoughts] == ["history", "emotion", "strategy"]
    chinese = next(one for step in samples.steps for one in samples.at(step, "zh") if one.thoughts)
    assert chinese.thoughts[1].labels == {"sentiment": "消极", "emotion": "悲伤", "intensity": "4"}
    assert whole.thoughts[1].labels == {"sentiment": "negative", "emotion": "sadness", "intensity": "4"}


def test_runs_are_for_the_coordinator_and_closed_without_folders(tmp_path: Path, runs_folder: Path) -> None:
    with runs_studio(tmp_path / "a") as address, browser_of(address) as client:
        assert client.get("/runs").status_code == 404
        assert "--runs" in client.get("/").text and 'href="/runs"' not in client.get("/").text
    with (
        runs_studio(tmp_path / "b", runs=(runs_folder,), public="http://127.0.0.1", token=TOKEN) as address,
        browser_of(address) as client,
    ):
        assert client.get("/runs").status_code == 403


def test_a_run_can_grow_while_it_is_looked_at(tmp_path: Path) -> None:
    """Drawing copies the metrics: a view of them would forbid the thread that reads on to add more."""
    policy_run(tmp_path / "run", 30)
    metrics = MetricLog(tmp_path / "run" / "metrics.jsonl")
    metrics.catch_up()
    column = metrics.column("reward")
    assert column
    steps, values = column.arrays()
    column.steps.append(31.0)  # half of what is added
    assert [len(one) for one in column.arrays()] == [30, 30] and len(steps) == len(values) == 30


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, dict[str, str]]]:
    """A studio over two trainings, evaluations before and after, SAGE and a study of a judge; and their ids."""
    root = tmp_path_factory.mktemp("lab")
    policy_run(root / "runs" / "paper", 60)
    policy_run(root / "runs" / "tau-2", 40, learning_rate=2e-6)
    reward_run(root / "runs" / "before", "before")
    reward_run(root / "runs" / "after", "after", lift=0.3)
    sage_run(root / "runs" / "sage", "model|a <b>", count=40)
    judge_study(root / "runs" / "judges")
    with runs_studio(root / "data", runs=(root / "runs",)) as address, browser_of(address) as client:
        yield client, {name: path.removeprefix("/runs/") for name, path in links(client.get("/runs").text).items()}


def test_runs_are_compared_and_the_address_reproduces_the_view(lab: tuple[httpx.Client, dict[str, str]]) -> None:
    client, ids = lab
    form = client.get("/runs").text
    assert re.findall(r'type="checkbox" name="run" value="(\w+)"', form).count(ids["paper"]) == 1
    assert client.get("/runs/compare").headers["location"] == "/runs", "nothing was selected"
    both = [("run", ids["paper"]), ("run", ids["tau-2"])]
    page = client.get("/runs/compare", params=both).text
    assert page.count("<figure") == 4, "four metrics to begin with"
    reward = page[page.index(">Reward</span>") :].split("</figure>")[0]
    assert "<title>paper</title>" in reward and "<title>tau-2</title>" in reward and reward.count("<polyline") == 2
    assert ">learning rate</th>" in page.partition("Settings that differ")[2]
    chosen = client.get("/runs/compare", params=[*both, ("metric", "entropy"), ("metric", "eval_nothing")])
    assert re.findall(r"<figcaption><span>(.*?)</span>", chosen.text) == ["Entropy"]
    checked = re.findall(r'name="metric" value="([^"]+)" checked', chosen.text)
    assert checked == ["entropy"], "the form shows what the address says"
    assert client.get(chosen.request.url.raw_path.decode()).text == chosen.text
    assert client.get("/runs/compare", params={"run": "0" * 12}).status_code == 404


def test_evaluations_are_compared_case_by_case(lab: tuple[httpx.Client, dict[str, str]]) -> None:
    client, ids = lab
    page = client.get("/runs/compare", params=[("run", ids["before"]), ("run", ids["after"])]).text
    titles = re.findall(r"<figcaption><span>(.*?)</span>", page)
    assert titles[:3] == ["Paired differences: after minus before", "reward, case by case: before to after",
                          "Distribution of reward"]  # fmt: skip
    chinese = client.get(
        "/runs/compare", params=[("run", ids["before"]), ("run", ids["after"])], headers={"accept-language": "zh"}
    ).text
    assert "逐例配对差值" in chinese and "Paired differences" not in chinese


def test_a_figure_is_downloaded_in_three_forms(lab: tuple[httpx.Client, dict[str, str]]) -> None:
    client, ids = lab
    page = client.get("/runs/compare", params=[("run", ids["paper"]), ("run", ids["tau-2"])]).text
    addresses = [one.replace("&amp;", "&") for one in re.findall(r'<a download="[^"]+" href="([^"]+)"', page)]
    assert len(addresses) == 12
    svg, table, tex = (client.get(one) for one in addresses[:3])
    assert svg.headers["content-type"] == "image/svg+xml" and "<style>" in svg.text
    assert svg.headers["content-disposition"] == 'attachment; filename="metric-reward.svg"'
    assert table.text.startswith("series,step,value\npaper,1,") and "\ntau-2,40," in table.text
    assert tex.text.startswith("\\begin{table}")
    study = client.get(f"/runs/{ids['judges']}").text
    names = re.findall(r'data-name="([^"]+)"', study)
    assert any("roc" in name for name in names) and any("calibration" in name for name in names)
    for name in names:
        assert client.get("/runs/figure.csv", params={"run": ids["judges"], "name": name}).status_code == 200
    assert client.get("/runs/figure.csv", params={"run": ids["paper"], "name": "none"}).status_code == 404
    assert client.get("/runs/figure.exe", params={"run": ids["paper"], "name": "metric-reward"}).status_code == 422


def test_notes_are_kept_shown_and_found(lab: tuple[httpx.Client, dict[str, str]]) -> None:
    client, ids = lab
    where = f"/runs/{ids['tau-2']}"
    text = f"Seed 4 diverged. {XSS}"
    answer = client.post(f"{where}/note", data={"csrf": csrf(client.get(where).text), "text": text})
    assert answer.status_code == 303 and answer.headers["location"] == f"{where}#note"
    for page in (where, "/runs", f"/runs/compare?run={ids['tau-2']}"):
        shown = client.get(page).text
        assert "Seed 4 diverged." in shown and "<script>alert" not in shown, page
    assert links(client.get("/runs", params={"q": "DIVERGED"}).text).keys() == {"tau-2"}
    assert client.post(f"{where}/note", data={"text": "no token"}).status_code == 403
    client.post(f"{where}/note", data={"csrf": csrf(client.get(where).text), "text": " "})
    assert "diverged" not in client.get(where).text


def test_the_list_is_filtered_by_kind_state_and_words(lab: tuple[httpx.Client, dict[str, str]]) -> None:
    client, _ = lab

    def found(**params: str) -> set[str]:
        return set(links(client.get("/runs", params=params).text))

    assert found(kind="training") == {"paper", "tau-2"} == found(state="finished")
    assert found(kind="judging") == {"judges"} and found(kind="evaluation", q="before") == {"before"}
    assert found(q="sage") == {"sage"} and found(state="writing") == set()
    assert client.get("/runs", params={"kind": "nothing"}).status_code == 422
    page = client.get("/runs", params={"kind": "evaluation"}).text
    assert '<option value="evaluation" selected>' in page


def test_samples_stand_under_their_prompt_across_steps(lab: tuple[httpx.Client, dict[str, str]]) -> None:
    client, ids = lab
    page = client.get(f"/runs/{ids['paper']}", params=[("step", "1"), ("step", "30"), ("step", "60")]).text
    prompts = re.findall(r'<section class="card stack prompt">\s*<h3 class="anywhere reading">(.*?)</h3>', page)
    assert prompts == list(PROMPTS)
    first = page.split('class="card stack prompt"')[1]
    assert re.findall(r'<h4 class="numbers">step (\d+)</h4>', first) == ["1", "30", "60"]
    assert "Earlier turns: 1" in first and first.count('class="reply"') == 3


def test_held_out_prompts_come_first_and_old_logs_without_prompts_are_shown(tmp_path: Path) -> None:
    run = policy_run(tmp_path / "run", 20)
    for step in (4, 20):
        told = {"output": "I hear you.", "reward": 1.0, "prompt": [{"speaker": "seeker", "text": "The same."}]}
        run.sample({"step": step, "id": "held", "held_out": True, **told})
    for place in range(2):  # as logs were before
        run.sample({"step": 20, "id": f"old/{place}", "output": "No prompt.", "reply": "No prompt."})
    samples = SampleLog(tmp_path / "run" / "samples.jsonl")
    samples.catch_up()
    assert samples.spread() == [4, 20], "steps that answer the same prompts"
    rows = by_prompt([(step, samples.at(step)) for step in samples.spread()])
    assert rows[0].id == "held" and [step for step, _ in rows[0].steps] == [4, 20]
    old = next(one for one in rows if one.id == "old")
    assert old.prompt == [] and len(old.steps[0][1]) == 2


def test_an_evaluation_shows_its_transcripts(lab: tuple[httpx.Client, dict[str, str]]) -> None:
    client, ids = lab
    where = f"/runs/{ids['sage']}"
    page = client.get(where).text
    cases = re.findall(r'<b class="one-line">(.*?)</b>', page)
    assert len(cases) == 15 and "40 of 40" in page and "Page 1 of 3" in page
    lowest = client.get(where, params={"order": "up"}).text
    scores = [float(one) for one in re.findall(r'</b><span class="numbers">(.*?)</span>', lowest)]
    assert scores == sorted(scores)
    other = client.get(where, params={"case": cases[4]}).text
    shown = other.split('<article class="card stack dialogue"')[1]
    assert f'<h3 class="anywhere">{cases[4]}</h3>' in shown and "Supporter" in shown and "emotion 40" in shown
    assert "History" in shown and "Strategy" in shown, "the reasoning in steps"
    word = client.get(where, params={"q": "parrot"}).text
    assert re.search(r"\b[1-9] of 40", word) and "parrot" in word.split("<article")[1]
    assert "No matching dialogue" in client.get(where, params={"q": XSS}).text


def test_every_kind_of_page_is_accessible_and_fits_a_phone(
    opened: Any, lab: tuple[httpx.Client, dict[str, str]]
) -> None:
    """axe-core on what the table of tests/studio/test_accessible.py does not reach: one page for each kind of run."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    client, ids = lab
    everything = "&".join(f"run={ids[name]}" for name in ("paper", "tau-2", "before", "after", "judges"))
    pages = [
        *(f"/runs/{ids[name]}" for name in ("paper", "before", "sage", "judges")),
        f"/runs/compare?{everything}",
        "/runs",
    ]
    for width, scheme, some in ((1280, "light", pages), (390, "dark", pages[2:5:2])):
        look = {"viewport": {"width": width, "height": 860}, "color_scheme": scheme}
        with window(opened, str(client.base_url).rstrip("/"), **look) as (page, wrong):
            for path in some:
                page.goto(path)
                found = axe.run(page).response["violations"]
                assert [(path, one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
                assert page.evaluate("document.documentElement.scrollWidth") == width, path
            assert wrong == []


def test_ticked_runs_are_compared_and_stay_ticked(opened: Any, lab: tuple[httpx.Client, dict[str, str]]) -> None:
    client, _ = lab
    with window(opened, str(client.base_url).rstrip("/")) as (page, wrong):
        page.goto("/runs")
        for name in ("paper", "tau-2"):
            page.get_by_label(f"Select {name} for comparison").check()
        page.get_by_role("button", name="Compare selected").click()
        page.wait_for_url("**/runs/compare?run=*")
        page.get_by_label("Entropy").check()
        page.get_by_role("button", name="Show").click()
        page.wait_for_url("**metric=entropy**")
        assert page.locator("figure").count() == 5
        page.locator("figure svg").first.hover(position={"x": 200, "y": 60})
        assert re.fullmatch(r"\d+: -?[\d.]+ · -?[\d.]+", page.locator("figure b").first.inner_text())
        assert wrong == []


#: keys as code has them: a_b, a/b, --a, and dictionaries and lists as Python writes them
INTERNAL = re.compile(
    r"\b[a-z]+_[a-z_]+\b|\b(?:part|judge|diversity|length|format|adherence|recall|en|zh)/[a-z]|\{'|\{\"|\['|None\b"
)


def test_no_page_shows_internal_keys_or_dictionaries(lab: tuple[httpx.Client, dict[str, str]], tmp_path: Path) -> None:
    client, ids = lab
    report = write_report([Path(p) for p in _folders(client, ids)], tmp_path / "out")
    shown = {f"/runs/{key}?every=1": client.get(f"/runs/{key}", params={"every": "1"}).text for key in ids.values()}
    shown["/runs"] = client.get("/runs").text
    everything = [("run", key) for key in ids.values()]
    shown["/runs/compare"] = client.get("/runs/compare", params=everything).text
    shown["report"] = report.page.read_text(encoding="utf-8")
    for where, page in shown.items():
        for part in (r"<script.*?</script>", r"<style.*?</style>", r"<pre.*?</pre>", r"<dl class=\"facts small\">.*?</dl>",
                     r"<p class=\"said\">.*?</p>", r"<dd class=\"anywhere\">.*?</dd>", r"<p class=\"note reading.*?</p>",
                     r"<figure class=\"figure\" data-name=\"[^\"]*\""):  # fmt: skip
            page = re.sub(part, " ", page, flags=re.DOTALL)
        words = " ".join(re.findall(r'aria-label="([^"]*)"', page)) + re.sub(r"<[^>]*>", " ", page)
        assert INTERNAL.findall(words) == [], where


def _folders(client: httpx.Client, ids: dict[str, str]) -> list[str]:
    """The folders of the lab's runs, as the page of a run names them."""
    facts = client.get(f"/runs/{ids['paper']}").text
    folder = re.search(r"<dt>folder</dt><dd>(.*?)</dd>", facts)
    assert folder
    return [str(Path(folder[1]).parent / name) for name in ids]
