# SPDX-License-Identifier: GPL-2.0
"""Line plots as SVG, for bench.py."""

import math

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 72, 190, 34, 46
COLOURS = ["#555555", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]


def _ticks(low, high, log):
    if log:
        return [10 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    high = high or 1
    step = 10 ** math.floor(math.log10(high))
    while high / step < 4:
        step /= 2
    return [step * i for i in range(int(high / step) + 2)]


def _short(value):
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def plot(title, x_title, lines, x_labels, log):
    """An SVG of lines, a dict from a name to points (index into x_labels, value); None if no line has a
    point."""
    values = [value for points in lines.values() for _, value in points]
    if not values:
        return None
    ticks = _ticks(min(values), max(values), log)
    low, high = ticks[0], ticks[-1]

    def x_of(i):
        return LEFT + (WIDTH - LEFT - RIGHT) * i / max(1, len(x_labels) - 1)

    def y_of(value):
        part = (math.log(value / low) / math.log(high / low)) if log else (value - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    def text(x, y, content, anchor="middle", extra=""):
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{content}</text>'

    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 18, title, "start", ' font-size="14"'),
    ]
    for tick in ticks:
        y = y_of(tick)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        out.append(text(LEFT - 6, y + 4, _short(tick), "end"))
    for i, label in enumerate(x_labels):
        out.append(text(x_of(i), HEIGHT - BOTTOM + 18, label))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_title))
    for i, (name, points) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>' for x, y in points]
        y = TOP + 16 * i + 8
        out.append(f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 32}" y1="{y}" y2="{y}" '
                   f'stroke="{colour}" stroke-width="2"/>')
        out.append(text(WIDTH - RIGHT + 38, y + 4, name, "start"))
    return "\n".join(out + ["</svg>", ""])
