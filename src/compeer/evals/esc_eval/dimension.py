"""The seven dimensions: the key in ESC-Eval's code and files, and the paper's column."""

from __future__ import annotations

DIMENSIONS: dict[str, str] = {
    "fluency": "Fluency",
    "diversity": "Expression",
    "empathic": "Empathy",
    "suggestion": "Information",
    "tech": "Skillful",
    "human": "Humanoid",
    "overall": "Overall",
}
AVERAGE = "Average"
SCALE = 25.0  # 0 to 4 is published as 0 to 100
