"""The cold start: what is learned, what is left out, and a tiny model that really learns it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.policy.demonstrations import items
from typer.testing import CliRunner

from compeer.cer.item import PastTurn
from compeer.cli import app
from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.models import Request, open_model
from compeer.models.checkpoint import ChatTokenizer, open_tokenizer
from compeer.policy.prompts import demonstration, prompt_of, prompt_tokens, prompts_of
from compeer.policy.sft import SftConfig, examples, items_of, read_config, train
from compeer.reasoning import parse
from compeer.training.encode import IGNORED
from compeer.training.model import Lora

PLAN: dict[str, Any] = {
    "learning_rate": 3e-3, "batch_size": 4, "micro_batch": 4, "epochs": 100, "max_length": 1024, "save_every": 1000,
}  # fmt: skip


def config(folder: Path, model: Path, **more: Any) -> SftConfig:
    write_rows(folder / "items.jsonl", items())
    given = {"out": str(folder / "run"), "model": str(model), "data": (str(folder / "items.jsonl"),)}
    return SftConfig(**(given | PLAN | {"length": "brief", "device": "cpu"} | more))


@pytest.fixture(scope="module")
def taught(tiny_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[SftConfig, dict[str, Any]]:
    used = config(tmp_path_factory.mktemp("sft"), tiny_model_dir)
    return used, train(used, quiet=True)


def test_only_the_output_and_its_end_are_in_the_loss_and_the_prompt_is_grpos(
    tiny_model_dir: Path, tmp_path: Path
) -> None:
    tokenizer, _ = open_tokenizer(str(tiny_model_dir))
    words = ChatTokenizer(tokenizer)
    found, counts = examples(items(), words, config(tmp_path, tiny_model_dir))
    assert counts["learned"] == len(found) == 4
    for item, example in zip(items(), found, strict=True):
        labels = example.labels()
        start = next(place for place, label in enumerate(labels) if label != IGNORED)
        learnt = [label for label in labels if label != IGNORED]
        assert tokenizer.decode(learnt) == f"{demonstration(item)}<|im_end|>"
        asked = words.render(words.chat(prompt_of(item, lambda _: 0, 1, "brief").messages), ask=True)
        assert tokenizer.decode(list(example.ids[:start])) == asked


def test_what_cannot_be_learned_is_counted_and_left_out(tiny_model_dir: Path, tmp_path: Path) -> None:
    good = items()[0]
    bare = msgspec.structs.replace(good, reference_reasoning=None)
    marked = msgspec.structs.replace(good, reference="See <b>here</b>.")
    endless = msgspec.structs.replace(good, history=(PastTurn("seeker", "very " * 3000),))
    wordy = msgspec.structs.replace(good, reference="word " * 900)
    long = msgspec.structs.replace(
        good,
        history=(
            PastTurn("seeker", "Oh. " * 400),
            PastTurn("supporter", "Go on."),
            PastTurn("seeker", "I lost my job."),
        ),
    )
    used = config(tmp_path, tiny_model_dir, max_prompt=600)
    words = ChatTokenizer(*open_tokenizer(str(tiny_model_dir)))
    _, counts = examples([good, bare, marked, endless, wordy, good, long], words, used)
    assert counts == {
        "learned": 1, "shortened": 0, "no reasoning": 1, "not renderable": 1, "too long": 2, "repeated": 2,
    }, "shortened, the long history is the good item once more"  # fmt: skip
    with pytest.raises(UserError, match="Nothing can be learned from these items: no reasoning 2"):
        examples([bare, bare], words, used)


def test_a_tiny_model_learns_to_write_complete_outputs(taught: tuple[SftConfig, dict[str, Any]]) -> None:
    used, result = taught
    assert result["opens_as"] == f"hf:{used.out}/model"
    assert result["items"]["learned"] == 4

    async def written() -> list[str]:
        model = open_model(result["opens_as"])
        requests = [
            Request(messages=prompt_of(item, lambda _: 0, 1, "brief").messages, temperature=0.0, max_tokens=300)
            for item in items()
        ]
        answers = await asyncio.gather(*(model.ask(request) for request in requests))
        await model.close()
        return [answer.text for answer in answers]

    outputs = asyncio.run(written())
    assert all(parse(output).complete for output in outputs)
    assert outputs == [demonstration(item) for item in items()]


def test_a_finished_run_is_told_again_and_other_data_is_refused(
    taught: tuple[SftConfig, dict[str, Any]], tmp_path: Path
) -> None:
    used, result = taught
    file = tmp_path / "sft.yaml"
    file.write_bytes(msgspec.yaml.encode(msgspec.to_builtins(used)))
    weights = Path(used.out) / "model" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    done = CliRunner().invoke(app, ["policy", "sft", str(file), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == result
    assert weights.stat().st_mtime_ns == before
    with pytest.MonkeyPatch.context() as patch:  # the second of two processes
        patch.setenv("RANK", "1")
        assert CliRunner().invoke(app, ["policy", "sft", str(file), "--json"]).stdout == ""
    write_rows(tmp_path / "other.jsonl", items()[:2])
    with pytest.raises(UserError, match="holds another run: the train data was"):
        train(read_config(file, [f"data=[{tmp_path / 'other.jsonl'}]"]))


def test_text_and_pictures_train_an_adapter_of_a_vision_model(tiny_vision_dir: Path, tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (64, 64), "navy").save(tmp_path / "face.png")
    shown = msgspec.structs.replace(
        items()[1], history=(PastTurn("seeker", "My dog died.", (str(tmp_path / "face.png"),)),)
    )
    write_rows(tmp_path / "mixed.jsonl", [items()[0], shown])
    plan = {"batch_size": 2, "micro_batch": 1, "epochs": 2}
    used = config(tmp_path, tiny_vision_dir, data=(str(tmp_path / "mixed.jsonl"),), lora=Lora(r=4), **plan)
    words = ChatTokenizer(*open_tokenizer(str(tiny_vision_dir)))
    assert [len(example.images) for example in examples(items_of(used.data), words, used)[0]] == [0, 1]
    result = train(used, quiet=True)
    assert result["opens_as"] == f"hf:{tiny_vision_dir}+{used.out}/model"
    assert 0 < result["trained_parameters"] < result["parameters"] / 2

    async def answered() -> str:
        model = open_model(result["opens_as"])
        answer = await model.ask(Request(messages=prompt_of(shown, lambda _: 0, 1, "brief").messages, max_tokens=5))
        await model.close()
        return answer.finish

    assert asyncio.run(answered()) in ("stop", "length")


def test_a_picture_that_is_missing_is_counted_and_named(
    tiny_vision_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = str(tmp_path / "gone.png")
    shown = msgspec.structs.replace(items()[1], history=(PastTurn("seeker", "My dog died.", (gone,)),))
    words = ChatTokenizer(*open_tokenizer(str(tiny_vision_dir)))
    used = config(tmp_path, tiny_vision_dir)
    learned, counts = examples([items()[0], shown], words, used)
    assert len(learned) == 1 and counts["missing picture"] == 1 and counts["too long"] == 0
    assert gone in capsys.readouterr().err
    prompts, counts = prompts_of([items()[0], shown], prompt_tokens(words), 512, "brief", sees=words.sees)
    assert len(prompts) == 1 and counts["missing picture"] == 1 and counts["too long"] == 0
    assert gone in capsys.readouterr().err
    assert examples([items()[0], shown], words, msgspec.structs.replace(used, pictures=False))[1]["learned"] == 2


def test_a_model_that_cannot_see_learns_no_answer_to_a_picture(tiny_model_dir: Path, tmp_path: Path) -> None:
    """Unless it is told to take the words alone."""
    shown = msgspec.structs.replace(items()[1], history=(PastTurn("seeker", "My dog died.", ("bed.png",)),))
    words, used = ChatTokenizer(*open_tokenizer(str(tiny_model_dir))), config(tmp_path, tiny_model_dir)
    counts = examples([items()[0], shown], words, used)[1]
    assert counts["learned"] == counts["picture not seen"] == 1
    assert examples([items()[0], shown], words, msgspec.structs.replace(used, pictures=False))[1]["learned"] == 2


def test_items_are_read_as_stages_write_them_and_as_they_are_published(tmp_path: Path) -> None:
    from compeer.cer.item import to_row

    write_rows(tmp_path / "stage.jsonl", items()[:1])
    (tmp_path / "jsonl").mkdir()
    pictured = msgspec.structs.replace(items()[0], history=(PastTurn("seeker", "Look.", ("images/a.png",)),))
    write_rows(tmp_path / "jsonl" / "train.jsonl", [to_row(pictured)])
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"")
    (plain,) = items_of([str(tmp_path / "stage.jsonl")])
    assert plain == items()[0]
    (published,) = items_of([str(tmp_path / "jsonl" / "train.jsonl")])
    assert published.history[0].images == (str(tmp_path / "images" / "a.png"),)
    write_rows(tmp_path / "bad.jsonl", [{"id": "x"}])
    with pytest.raises(UserError, match=r"bad\.jsonl, line 1 .record x.: .* must be a CER item"):
        list(items_of([str(tmp_path / "bad.jsonl")]))


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parents[2].glob("configs/policy/sft-*.yaml")), ids=lambda p: p.name
)
def test_shipped_configs_are_read(path: Path) -> None:
    assert read_config(path).learning_rate < 1e-3
    assert read_config(path, ["epochs=1", "out=elsewhere"]).out == "elsewhere"


def test_a_config_that_cannot_be_used_names_the_field(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("out: a\nmodel: b\ndata: [c]\ncharm: 3\n")
    with pytest.raises(UserError, match="unknown field `charm`"):
        read_config(file)
