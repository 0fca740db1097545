"""Silver labels: CER items from corpora that people have labelled, without any model.

build           build_silver: dialogues in, items out; text_only: how much the text alone tells
moment          what is known about a round: what was said before it, and what people noted
steps           the reasoning of a moment: the seeker's words and sentences from phrases_en.json, phrases_zh.json
wrong_steps     what is wrong, and wrong in a way that the text alone does not show
replies         the candidate's reply and the preference
"""

from compeer.cer.silver.build import Leakage, build_silver, text_only

__all__ = ["Leakage", "build_silver", "text_only"]
