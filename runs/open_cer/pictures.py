"""The pictures of open CER's picture conversations: twelve plain scenes, drawn here.

    python -m runs.open_cer.pictures      writes corpora/open_cer/pictures/NAME.png

Each scene is a few shapes on a canvas of 320 by 240. They are drawings and look like drawings: they exist so that rows
with and without pictures go through every format together, not to show that a model can see.
"""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image, ImageDraw, ImageFont

from compeer.corpora import open_cer

FOLDER = open_cer.FOLDER / "pictures"
WALL, FLOOR, WOOD, DARK, WHITE = "#E9E1D3", "#B99B78", "#8A5A34", "#3A332C", "#FFFFFF"
RED, GREEN, BLUE, GREY, YELLOW, SKY = "#B5443A", "#4E7F4B", "#46699A", "#9AA0A6", "#E8C15A", "#A9C7E0"
_LARGER = 2  # drawn at twice the size, then made smaller: smooth edges
Scene = Callable[["Canvas"], None]


class Canvas:
    """Shapes in the coordinates of the finished picture."""

    def __init__(self) -> None:
        self.image = Image.new("RGB", (320 * _LARGER, 240 * _LARGER), WALL)
        self.draw = ImageDraw.Draw(self.image)

    def box(self, left: int, top: int, right: int, bottom: int, fill: str, round_: int = 0) -> None:
        self.draw.rounded_rectangle(_scaled(left, top, right, bottom), round_ * _LARGER, fill)

    def oval(self, left: int, top: int, right: int, bottom: int, fill: str) -> None:
        self.draw.ellipse(_scaled(left, top, right, bottom), fill)

    def shape(self, *points: int, fill: str) -> None:
        self.draw.polygon(_scaled(*points), fill)

    def line(self, *points: int, fill: str = DARK, width: int = 2) -> None:
        self.draw.line(_scaled(*points), fill, width * _LARGER)

    def slice(self, left: int, top: int, right: int, bottom: int, start: int, end: int, fill: str) -> None:
        self.draw.pieslice(_scaled(left, top, right, bottom), start, end, fill)

    def text(self, left: int, top: int, text: str, size: int = 14, fill: str = DARK) -> None:
        self.draw.text((left * _LARGER, top * _LARGER), text, fill, ImageFont.load_default(size * _LARGER))

    def floor(self, top: int = 180) -> None:
        self.box(0, top, 320, 240, FLOOR)

    def window(self, left: int, top: int, right: int, bottom: int, sky: str) -> None:
        self.box(left - 6, top - 6, right + 6, bottom + 6, WHITE)
        self.box(left, top, right, bottom, sky)
        self.line((left + right) // 2, top, (left + right) // 2, bottom, fill=WHITE, width=4)
        self.line(left, (top + bottom) // 2, right, (top + bottom) // 2, fill=WHITE, width=4)


def _scaled(*numbers: int) -> list[int]:
    return [number * _LARGER for number in numbers]


def suitcase(on: Canvas) -> None:
    on.floor()
    on.box(214, 40, 290, 182, WOOD)  # the door
    on.oval(222, 112, 230, 120, YELLOW)
    on.box(60, 104, 176, 200, BLUE, 8)
    on.box(100, 88, 136, 106, DARK, 5)
    on.box(106, 94, 130, 106, WALL)
    for left in (80, 150):
        on.box(left, 104, left + 8, 200, "#2F4870")
    on.shape(118, 104, 150, 104, 160, 92, 126, 90, fill=RED)  # a sleeve that did not fit


def chair(on: Canvas) -> None:
    on.floor()
    on.window(176, 30, 290, 136, SKY)
    on.box(70, 70, 82, 214, WOOD)
    on.box(70, 70, 130, 80, WOOD)
    on.box(70, 96, 130, 104, WOOD)
    on.box(70, 140, 146, 152, WOOD, 3)
    on.box(134, 150, 144, 214, WOOD)
    on.box(84, 130, 140, 142, GREEN, 5)  # the cushion


def phone(on: Canvas) -> None:
    on.box(0, 0, 320, 240, "#6F5B49")
    on.box(104, 14, 216, 228, DARK, 14)
    on.box(111, 30, 209, 212, "#DCE6F0", 4)
    on.text(134, 44, "23:52", 20)
    on.box(116, 92, 204, 140, WHITE, 8)
    on.text(124, 96, "Dad", 14)
    on.text(124, 116, "1 new message", 10, GREY)
    on.oval(186, 97, 200, 111, RED)


def rain(on: Canvas) -> None:
    on.window(40, 20, 280, 170, "#7C8B99")
    for at in range(26):
        left, top = 46 + (at * 53) % 230, 24 + (at * 37) % 128
        on.line(left, top, left - 4, top + 14, fill="#C9D5DF", width=2)
    on.box(0, 182, 320, 240, WOOD)
    on.box(138, 150, 182, 190, WHITE, 6)
    on.oval(176, 156, 194, 178, WHITE)
    on.oval(181, 161, 189, 173, "#7C8B99")


def cake(on: Canvas) -> None:
    on.box(0, 150, 320, 240, WOOD)
    on.oval(60, 150, 230, 214, WHITE)
    on.slice(76, 108, 216, 200, 60, 360, "#D98FA0")
    on.slice(76, 96, 216, 188, 60, 360, "#F5E6DC")
    for left in (104, 128, 152):
        on.box(left, 78, left + 5, 118, BLUE)
    on.oval(246, 176, 306, 204, WHITE)  # a plate with crumbs
    for left, top in ((264, 186), (278, 192), (284, 184)):
        on.oval(left, top, left + 4, top + 4, "#D98FA0")


def paper(on: Canvas) -> None:
    on.box(0, 0, 320, 240, "#A98B68")
    on.box(80, 16, 240, 230, WHITE)
    on.text(96, 26, "Statistics II", 14)
    for row in range(7):
        top = 72 + row * 21
        on.line(96, top, 212 - (row * 23) % 40, top, fill=GREY)
    on.text(190, 24, "41", 26, RED)
    on.draw.ellipse(_scaled(182, 20, 230, 58), outline=RED, width=3 * _LARGER)


def tomato(on: Canvas) -> None:
    on.window(20, 20, 300, 150, SKY)
    on.box(0, 166, 320, 240, WOOD)
    on.shape(124, 150, 196, 150, 186, 212, 134, 212, fill="#B9653F")
    on.line(160, 152, 158, 60, fill=GREEN, width=4)
    for left, top in ((128, 70), (162, 84), (124, 106), (166, 118)):
        on.oval(left, top, left + 34, top + 15, GREEN)
    on.oval(166, 94, 190, 118, RED)


def calendar(on: Canvas) -> None:
    on.box(70, 24, 250, 216, WHITE)
    on.box(70, 24, 250, 56, RED)
    on.text(132, 30, "March", 17, WHITE)
    for day in range(1, 32):
        left, top = 80 + (day - 1) % 7 * 24, 66 + (day - 1) // 7 * 29
        on.text(left + 2, top, str(day), 11)
        if day < 18:
            on.line(left, top, left + 18, top + 16, fill=GREY)
    on.draw.ellipse(_scaled(145, 118, 173, 144), outline=RED, width=2 * _LARGER)


def noodles(on: Canvas) -> None:
    on.box(0, 0, 320, 240, WOOD)
    for left in (24, 180):
        on.oval(left, 70, left + 116, 170, WHITE)
        on.oval(left + 10, 80, left + 106, 160, "#C98B4A" if left == 24 else "#EFEBE4")
    for row in range(4):
        on.line(46, 104 + row * 12, 118, 100 + row * 12, fill="#F2DFA8", width=4)
    on.line(150, 60, 164, 190, fill=DARK, width=4)
    on.line(160, 60, 172, 190, fill=DARK, width=4)
    on.line(196, 196, 296, 196, fill=DARK, width=4)
    on.line(196, 206, 296, 206, fill=DARK, width=4)


def bed(on: Canvas) -> None:
    on.floor(130)
    on.oval(60, 120, 250, 210, "#6B7FA0")
    on.oval(82, 134, 228, 192, "#D9D2C4")
    on.oval(262, 176, 292, 206, YELLOW)  # the ball
    on.draw.arc(_scaled(126, 146, 184, 178), 0, 360, RED, 4 * _LARGER)  # the collar
    on.oval(150, 174, 162, 186, YELLOW)


def laptop(on: Canvas) -> None:
    on.box(0, 0, 320, 240, "#22262E")
    on.box(0, 186, 320, 240, "#4A3A2C")
    on.box(84, 64, 236, 166, DARK, 6)
    on.box(92, 72, 228, 158, "#E7EDF3")
    for row in range(5):
        on.line(102, 88 + row * 13, 210 - row * 17, 88 + row * 13, fill=GREY, width=3)
    on.shape(70, 186, 250, 186, 236, 168, 84, 168, fill=GREY)
    on.box(16, 150, 76, 180, "#111111", 4)
    on.text(22, 154, "02:47", 16, RED)


def ticket(on: Canvas) -> None:
    on.box(0, 0, 320, 240, "#8D8071")
    on.box(36, 58, 284, 184, "#BFD9E8", 6)
    on.line(66, 122, 124, 122, fill=BLUE, width=5)
    on.shape(124, 112, 124, 132, 142, 122, fill=BLUE)
    on.text(160, 104, "G 1307", 24)
    on.text(58, 72, "18:05", 20)
    on.text(58, 150, "12 - 07 F", 14)
    on.shape(230, 58, 284, 58, 284, 100, 258, 84, fill="#8D8071")  # a corner is torn off


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (suitcase, chair, phone, rain, cake, paper, tomato, calendar, noodles, bed, laptop, ticket)
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, scene in SCENES.items():
        canvas = Canvas()
        scene(canvas)
        small = canvas.image.resize((320, 240), Image.Resampling.LANCZOS)
        small.quantize(64).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
