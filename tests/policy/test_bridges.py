"""The reward in ms-swift's and verl's hands: the same numbers as ours, on the same groups."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.policy.demonstrations import items
from tests.policy.test_composite import Letters, output
from tests.reward.judge_process import JudgeProcess

from compeer.cer.item import PastTurn
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.policy.bridges import environment as reward_file
from compeer.policy.bridges import ms_swift, verl
from compeer.policy.composite import PromptRecord, Scored
from compeer.policy.prompts import encoded

ASKED = [
    PromptRecord("a", "en", (PastTurn("seeker", "I lost my job."),), "What happened?"),
    PromptRecord("b", "en", (PastTurn("seeker", "My dog died."),), "I am so sorry."),
]
SAID = [
    ["What happened at work that day?", "What happened at work that day?", "I am here with you.", "no format"],
    ["You miss her very much, I think.", "It hurts to lose a friend like her.", "Cheer up.", ""],
]
GROUPS = [(prompt_record, [output(reply) if " " in reply and reply != "no format" else reply for reply in said])
          for prompt_record, said in zip(ASKED, SAID, strict=True)]  # fmt: skip
FLAT = [(encoded(prompt_record), one) for prompt_record, outputs in GROUPS for one in outputs]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A GRPO configuration with a judge behind a real port."""
    file = tmp_path_factory.mktemp("bridge") / "reward.yaml"
    with JudgeProcess() as judge:
        file.write_text(f"model: whatever\nbatch: 7\nvariant: urp\njudge: {{ spec: '{judge.url}', budget: 30 }}\n")
        reward_file.opened(str(file)).embedder = Letters()
        yield str(file)
        reward_file.opened(str(file)).judge.close()  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def ours(config: str) -> list[Scored]:
    scored = reward_file.opened(config).score(GROUPS)
    assert len({round(row.reward, 6) for row in scored}) > 3, "rows that tell something"
    assert all(row.failure is None for row in scored)
    assert any(row.reward != row.total for row in scored)
    return scored


def test_ms_swift_gets_our_rewards_from_lists_of_columns(
    config: str, ours: list[Scored], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPEER_REWARD", config)
    reward = ms_swift.CompeerReward(args=SimpleNamespace(num_generations=4))
    prompt_record, outputs = zip(*FLAT, strict=True)
    given = reward(list(outputs), prompt_record=list(prompt_record), messages=[[]] * 8, trainer_state=None)
    assert given == [row.reward for row in ours]
    assert all(isinstance(one, float) for one in given)


def test_ms_swift_divides_a_prompt_that_follows_itself_and_refuses_a_split_group(
    config: str, ours: list[Scored]
) -> None:
    reward = ms_swift.CompeerReward(SimpleNamespace(num_generations=4, num_generations_eval=1), config)
    prompt_record, outputs = zip(*(FLAT[:4] * 2), strict=True)
    assert reward(outputs, prompt_record=prompt_record) == [row.reward for row in ours[:4]] * 2
    strict = ms_swift.CompeerReward(SimpleNamespace(num_generations=4), config)
    with pytest.raises(UserError, match="3 outputs for a are in this process, and groups have 4: a group was split"):
        strict(outputs[:3], prompt_record=prompt_record[:3])
    with pytest.raises(UserError, match="8 outputs came with 0 rows of the column `prompt_record`"):
        reward(outputs)


def extra(prompt_record: str, group: int = 4) -> dict[str, Any]:
    return {"prompt_record": prompt_record, "group": group, "index": 0, "num_turns": 2}


def test_verl_one_output_at_a_time_meets_its_group_and_gets_our_rewards(config: str, ours: list[Scored]) -> None:
    async def step() -> list[dict[str, float]]:
        # the two groups come interleaved, as samplers finish them
        order = [at for pair in zip(range(4), range(4, 8), strict=True) for at in pair]
        waiting = {
            at: asyncio.create_task(
                verl.compute_score(
                    data_source="compeer",
                    solution_str=FLAT[at][1],
                    ground_truth="",
                    extra_info=extra(FLAT[at][0]),
                    config=config,
                )
            )
            for at in order
        }
        return [await waiting[at] for at in range(8)]

    told = asyncio.run(step())
    assert [one["score"] for one in told] == [row.reward for row in ours]
    assert [one["total"] for one in told] == [row.total for row in ours]
    assert [one["s_in"] for one in told] == [row.s_in for row in ours]


def test_verl_batches_in_any_order_get_our_rewards(config: str, ours: list[Scored]) -> None:
    order = list(range(8))
    random.Random(3).shuffle(order)
    order.sort(key=lambda at: at % 4)  # groups apart, outputs of each in their order
    told = verl.compute_scores(
        data_sources=["compeer"] * 8,
        solution_strs=[FLAT[at][1] for at in order],
        ground_truths=[""] * 8,
        extra_infos=[extra(FLAT[at][0]) for at in order],
        config=config,
    )
    assert [one["score"] for one in told] == [ours[at].reward for at in order]


def test_verl_alone_gives_the_total_before_equation_5(config: str, ours: list[Scored]) -> None:
    told = verl.compute_total("compeer", FLAT[0][1], "", extra(FLAT[0][0]), config=config)
    assert told["score"] == told["total"] == ours[0].total
    with pytest.raises(UserError, match="no `prompt_record` in its extra_info"):
        verl.compute_total("compeer", "x", "", {}, config=config)


def scored(name: str, outputs: list[str]) -> list[Scored]:
    if "break" in outputs:
        raise RuntimeError("the judge fell over")
    return [
        Scored(
            id=name,
            output=one,
            reply=one,
            complete=True,
            problems=(),
            parts={},
            total=0.0,
            reward=float(len(outputs)),
        )
        for one in outputs
    ]


def test_a_meeting_forgets_nobody() -> None:
    async def all_of_them() -> None:
        a, b = encoded(ASKED[0]), encoded(ASKED[1])
        meeting = verl.Meeting(scored, patience=0.2)
        alone = await meeting.join(b, 1, "x")
        assert alone.reward == 1, "a group of one waits for nobody"
        late = await asyncio.gather(*(meeting.join(a, 4, str(at)) for at in range(3)))
        assert [row.reward for row in late] == [3, 3, 3] and meeting.incomplete == 1
        twice = await asyncio.gather(*(meeting.join(a, 2, str(at)) for at in range(4)))
        assert [row.reward for row in twice] == [2] * 4 and [row.output for row in twice] == list("0123")
        failed = await asyncio.gather(*(meeting.join(a, 2, one) for one in ("fine", "break")), return_exceptions=True)
        assert [str(one) for one in failed] == ["the judge fell over"] * 2
        gone = asyncio.create_task(meeting.join(a, 2, "gone"))
        await asyncio.sleep(0)
        gone.cancel()
        stays = await meeting.join(a, 2, "stays")
        assert stays.output == "stays" and meeting.incomplete == 1

    asyncio.run(all_of_them())


def test_prompts_for_both_are_ours_and_lead_back_to_the_reward(tiny_model_dir: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    pictured = msgspec.structs.replace(items()[1], history=(PastTurn("seeker", "My dog died.", ("dog.png",)),))
    write_rows(tmp_path / "items.jsonl", [items()[0], pictured])
    file = tmp_path / "grpo.yaml"
    file.write_text(
        f"out: x\nmodel: {tiny_model_dir}\ndata: [{tmp_path / 'items.jsonl'}]\nlength: brief\nreward: {{ source: rules }}\n"
    )
    ms_swift.main([str(file), str(tmp_path / "prompts.jsonl")])
    verl.main([str(file), str(tmp_path / "prompts.parquet")])
    first, second = read_rows(tmp_path / "prompts.jsonl", dict)
    table = parquet.read_table(tmp_path / "prompts.parquet").to_pylist()
    assert [row["prompt"] for row in table] == [first["messages"], second["messages"]]
    assert first["messages"][-1] == {"role": "user", "content": "I lost my job."}
    assert second["images"] == [], "this model cannot see"
    assert msgspec.json.decode(second["prompt_record"], type=PromptRecord).history[0].images == ("dog.png",), (
        "the judge may"
    )
    assert [row["extra_info"]["group"] for row in table] == [4, 4]
    reward_file.opened(str(file)).embedder = Letters()
    good, bad = ms_swift.CompeerReward(config=str(file))(
        [output("Why?"), "Why?"], prompt_record=[first["prompt_record"]] * 2
    )
    assert good > 0 > bad
    assert verl.compute_total("", output("Why?"), "", table[0]["extra_info"], config=str(file))["score"] == 1


def test_the_reward_is_named_by_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPEER_REWARD", raising=False)
    with pytest.raises(UserError, match="set COMPEER_REWARD"):
        reward_file.opened()
    with pytest.raises(UserError, match="cannot be read"):
        reward_file.opened(str(tmp_path / "missing.yaml"))
    (tmp_path / "bad.yaml").write_text("reward: { source: rules, charm: 1 }\n")
    with pytest.raises(UserError, match="unknown field `charm`"):
        reward_file.opened(str(tmp_path / "bad.yaml"))
    (tmp_path / "none.yaml").write_text("variant: urp\n")
    with pytest.raises(UserError, match="needs a judge"):
        reward_file.opened(str(tmp_path / "none.yaml"))


def test_the_bridges_need_neither_trl_nor_torch() -> None:
    code = (
        "import sys; import compeer.policy.bridges.ms_swift as a, compeer.policy.bridges.verl as b;"
        "import compeer.policy.bridges.server, compeer.policy.bridges.trl;"
        "print([name for name in ('trl', 'torch', 'transformers', 'datasets') if name in sys.modules], a.register())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"
