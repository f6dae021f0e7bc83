"""Contact sheets: images, their counterfactuals under f and under each f_q, and what differs."""

import base64
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from cfq_bench.figures.page import WIDTH
from cfq_bench.figures.series import panels_of
from cfq_bench.results.collect import Result

PICTURES = "pictures"
LETTERS = 20
"""Of a name before it goes on in a second line."""
STRENGTH = 3.0
"""Of differences: those between two models' counterfactuals are faint."""
NONE_FOUND = 0.85
"""Grey of an image that does not exist."""
FAILED = (0.84, 0.15, 0.16)
"""Colour of the frame where the teacher's counterfactual fails on f_q."""

Pixels = NDArray[np.float64]
"""(H, W, 3) in [0, 1]."""


def contact_sheets(results: Sequence[Result]) -> Figure:
    """A sheet for each data set: pairs of an image and a difference, a line for every model."""
    sheets = {title: dict(_lines(_of_one_seed(part))) for title, part in panels_of(results).items()}
    shapes = [next(iter(lines.values())).shape for lines in sheets.values()]
    label = 0.34 * WIDTH  # inches for the names of the lines
    heights = [
        (WIDTH - label) * len(lines) * shape[0] / shape[1]
        for lines, shape in zip(sheets.values(), shapes, strict=True)
    ]
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.4 * len(sheets)), layout="constrained")
    spec = figure.add_gridspec(len(sheets), 1, height_ratios=heights)
    for i, (title, lines) in enumerate(sheets.items()):
        ax = figure.add_subplot(spec[i])
        ax.set_title(title, loc="left")
        ax.imshow(np.concatenate(list(lines.values())), interpolation="none")
        tall = next(iter(lines.values())).shape[0]
        names = [textwrap.fill(name, LETTERS) for name in lines]
        ax.set_yticks([(k + 0.5) * tall - 0.5 for k in range(len(lines))], names)
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.grid(False)
        for spine in ax.spines.values():
            spine.set_visible(False)
    return figure


def _of_one_seed(results: Sequence[Result]) -> list[Result]:
    """The rows at the seed that most have, the least of such; all show the same images."""
    counts = Counter(result.seed for result in results)
    seed = min(counts, key=lambda one: (-counts[one], one))
    chosen = [result for result in results if result.seed == seed]
    shown = chosen[0].record.details[PICTURES]["row_ids"]
    return [one for one in chosen if one.record.details[PICTURES]["row_ids"] == shown]


def _lines(results: Sequence[Result]) -> Iterator[tuple[str, Pixels]]:
    """What stands beside a name: a pair of images for each person."""
    teacher = results[0].record.details[PICTURES]
    image, decoded, on_f = (_images(teacher, key) for key in ("factual", "reconstruction", "on_f"))
    yield "image, decoded", _line(image, decoded)
    yield "under f, change", _line(on_f, _differences(on_f, decoded))
    for result in results:
        own = result.record.details[PICTURES]
        on_q = _images(own, "on_q")
        differences = _differences(on_q, on_f)
        for i, (found, held) in enumerate(zip(own["found"], own["held"], strict=True)):
            if not found:
                on_q[i] = differences[i] = np.full_like(on_q[i], NONE_FOUND)
            if not held:
                on_q[i] = _framed(on_q[i])
        yield result.row, _line(on_q, differences)


def _images(pictures: dict[str, Any], strip: str) -> list[Pixels]:
    """The images of a strip."""
    with Image.open(BytesIO(base64.b64decode(pictures[strip]))) as file:
        pixels = np.asarray(file.convert("RGB"), dtype=np.float64) / 255
    return np.split(pixels, len(pictures["row_ids"]), axis=1)


def _differences(images: Sequence[Pixels], others: Sequence[Pixels]) -> list[Pixels]:
    """Brighter pixels red, darker ones blue, the rest white; `STRENGTH` times as strong."""
    shown = []
    for image, other in zip(images, others, strict=True):
        change = STRENGTH * (image - other).mean(axis=2, keepdims=True)
        up, down = change.clip(0, 1), (-change).clip(0, 1)
        shown.append(np.concatenate([1 - down, 1 - up - down, 1 - up], axis=2))
    return shown


def _framed(image: Pixels) -> Pixels:
    """The image with a frame, two pixels wide."""
    framed = np.empty_like(image)
    framed[:] = FAILED
    framed[2:-2, 2:-2] = image[2:-2, 2:-2]
    return framed


def _line(left: Sequence[Pixels], right: Sequence[Pixels]) -> Pixels:
    """Pairs side by side with space between them, and below."""
    height, width, _ = left[0].shape
    narrow, wide = np.ones((height, 1, 3)), np.ones((height, width // 4, 3))
    parts = [
        part for pair in zip(left, right, strict=True) for part in (pair[0], narrow, pair[1], wide)
    ]
    line = np.concatenate(parts[:-1], axis=1)
    return np.concatenate([line, np.ones((1, line.shape[1], 3))])
