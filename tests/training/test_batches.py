"""Order and batches: the same for the same seed and epoch, no row lost, pictures only where there are some."""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from compeer.models.checkpoint import ChatTokenizer
from compeer.training.encode import IGNORED, BatchOrder, Collator, Example, order


def example(length: int, picture: bool = False) -> Example:
    return Example(array("i", range(5, 5 + length)), ((length - 2, length),), ("a.png",) if picture else ())


class TestOrder:
    def test_every_example_comes_once_in_one_process(self) -> None:
        examples = [example(3 + at % 7, at % 3 == 0) for at in range(101)]
        assert sorted(order(examples, 4, 1, Random(0))) == list(range(101))

    def test_the_same_epoch_gives_the_same_order_and_another_one_another(self) -> None:
        examples = [example(3 + at % 7) for at in range(40)]
        epoch = 0
        sampler = BatchOrder(examples, 4, 1, seed=3, epoch=lambda: epoch)
        first, again = list(sampler), list(sampler)
        epoch = 1
        assert first == again != list(sampler)
        assert list(BatchOrder(examples, 4, 1, seed=4, epoch=lambda: 0)) != first

    def test_batches_hold_examples_of_like_length(self) -> None:
        rng = Random(1)
        examples = [example(rng.randint(3, 400)) for _ in range(256)]

        def padding(numbers: list[int]) -> int:
            lengths = [[len(examples[at]) for at in numbers[start : start + 8]] for start in range(0, 256, 8)]
            return sum(max(batch) * len(batch) - sum(batch) for batch in lengths)

        assert padding(order(examples, 8, 1, Random(0))) < 0.2 * padding(Random(0).sample(range(256), 256))

    @pytest.mark.parametrize("each", [2, 4])
    def test_all_processes_get_pictures_or_none_does(self, each: int) -> None:
        examples = [example(5 + at % 9, at % 4 == 0) for at in range(50)]
        numbers = order(examples, 3, each, Random(0))
        assert set(numbers) == set(range(50))
        assert len(numbers) % (3 * each) == 0
        for start in range(0, len(numbers), 3 * each):
            assert len({bool(examples[at].images) for at in numbers[start : start + 3 * each]}) == 1
        extra = len(numbers) - 50
        assert sum(count - 1 for count in Counter(numbers).values()) == extra < 2 * 3 * each

    def test_validation_keeps_its_order_and_its_number(self) -> None:
        sampler = BatchOrder([example(4) for _ in range(9)], 4, 1, seed=0, epoch=None)
        assert list(sampler) == list(range(9)) and len(sampler) == 9

    def test_nothing_is_no_batch(self) -> None:
        assert order([], 4, 2, None) == []


class TestCollator:
    def test_pads_on_the_right_and_learns_only_the_spans(self, tiny_model_dir: Path) -> None:
        from compeer.models.checkpoint import open_tokenizer

        words = ChatTokenizer(*open_tokenizer(str(tiny_model_dir)))
        batch = Collator([example(3), example(5)], words)([{"number": 0}, {"number": 1}])
        assert batch["input_ids"].tolist() == [[5, 6, 7, words.pad, words.pad], [5, 6, 7, 8, 9]]
        assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1] * 5]
        assert batch["labels"].tolist() == [[IGNORED, 6, 7, IGNORED, IGNORED], [IGNORED] * 3 + [8, 9]]
        assert set(batch) == {"input_ids", "attention_mask", "labels"}

    def test_a_row_means_the_same_alone_and_beside_rows_with_pictures(
        self, tiny_vision_dir: Path, tmp_path: Path
    ) -> None:
        import torch
        from PIL import Image

        from compeer.models.checkpoint import open_checkpoint
        from compeer.training.encode import encode

        opened = open_checkpoint(str(tiny_vision_dir), device="cpu")
        words = ChatTokenizer(opened.tokenizer, opened.processor)
        Image.effect_noise((70, 90), 60).convert("RGB").save(tmp_path / "a.png")
        pictured = [{"type": "image", "path": str(tmp_path / "a.png")}, {"type": "text", "text": "and this?"}]
        chats = [
            [{"role": "user", "content": content}, {"role": "assistant", "content": "True."}]
            for content in (pictured, "only words, and more of them")
        ]
        collate = Collator([encode(chat, words) for chat in chats], words)
        with torch.no_grad():
            together = opened.model(**collate([{"number": 0}, {"number": 1}])).logits
            for number in (0, 1):
                batch = collate([{"number": number}])
                assert ("pixel_values" in batch) == (number == 0)
                alone = opened.model(**batch).logits[0]
                assert torch.allclose(together[number, : len(alone)], alone, atol=1e-4)
