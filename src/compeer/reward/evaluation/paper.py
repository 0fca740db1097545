"""Table 1 of the paper, as printed (arXiv:2508.09521): percentages on its own held-out set of 574 samples.

That set, its labels and its 7B judges are not ours. These rows stand beside our figures for orientation, in a table
of their own and marked, and are never compared with them by number.
"""

from __future__ import annotations

NOTE = "from the paper, on its own data (574 samples); not comparable with the figures above"
#: weighted F1 and recall of False for each step, weighted F1 and accuracy for the reply
TABLE_1: dict[str, tuple[float | None, ...]] = {
    "GPT-4o": (46.63, 6.48, 75.53, 4.26, 73.42, 10.91, 47.94, 51.92),
    "InternVL3": (49.87, 2.52, 54.65, 4.00, 53.79, 2.31, 46.32, 51.01),
    "Qwen2.5-VL": (43.23, 2.29, 74.18, 2.21, 71.79, 2.01, 42.19, 47.91),
    "Keye-VL": (48.42, 8.40, 73.16, 18.00, 74.30, 12.50, 47.32, 51.66),
    "MiMo-VL": (47.78, 7.20, 75.11, 9.06, 71.64, 6.14, 48.15, 53.66),
    "PRM": (75.26, 58.46, 78.58, 10.00, 78.77, 29.47, None, None),
    "ORM": (None, None, None, None, None, None, 56.31, 58.71),
    "UnifiReward": (75.34, 58.82, 81.70, 25.00, 79.53, 32.15, 56.88, 59.93),
    "UnifiReward-D": (74.75, 59.25, 81.68, 31.00, 81.35, 41.97, 54.57, 53.49),
    "UnifiReward-R": (71.06, 43.7, 75.93, 3.01, 71.94, 1.79, 56.09, 58.89),
    "UnifiReward-P": (77.12, 67.23, 82.18, 36.04, 81.79, 44.65, 57.03, 61.15),
}
