"""Draw docs/idea.svg, the picture of the README: python docs/pictures/idea.py. Its sets are computed."""

from pathlib import Path

from aptset import adaptive_scores

LEFT, WIDTH, HEIGHT, STEP = 130, 380, 40, 60
THRESHOLD, U = 0.884, 0.5  # what calibration rows might have taught, and one random number for the labels on the line
ROWS = {
    "easy row": {"cat": 0.86, "dog": 0.09, "fox": 0.05},
    "hard row": {"fox": 0.37, "dog": 0.32, "cat": 0.16, "owl": 0.15},
    "in between": {"dog": 0.53, "fox": 0.33, "cat": 0.14},
}
INSIDE, OUTSIDE, LINE = "#1f6fb2", "#8fb8da", "#d1495b"


def members(row):
    """Return the labels whose score is at most the threshold."""
    scores = adaptive_scores([list(row.values())] * len(row), range(len(row)), u=[U] * len(row))
    return [label for label, score in zip(row, scores, strict=True) if score <= THRESHOLD]


def bar(top, row):
    """Return the labels of a row side by side, most likely first, each as wide as its probability."""
    chosen, x = members(row), float(LEFT)
    for label, p in row.items():
        fill, width = INSIDE if label in chosen else OUTSIDE, p * WIDTH
        shape = f'x="{x:.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}"'
        yield f'<rect {shape} fill="{fill}" stroke="#ffffff" stroke-width="1.5"/>'
        if width > 58:
            colour, middle = "#ffffff" if label in chosen else "#222222", x + width / 2
            yield f'<text x="{middle:.1f}" y="{top + 25}" text-anchor="middle" fill="{colour}">{label} {p:.2f}</text>'
        x += width


def lines():
    """Return the picture, line by line."""
    bottom = 52 + STEP * len(ROWS)
    font = 'font-family="Helvetica, Arial, sans-serif" font-size="13"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 530 {bottom + 32}" role="img" {font}>'
    title = "Sort labels by probability. Cut every row at one threshold."
    yield f"<title>{title}</title>"
    yield f'<rect width="530" height="{bottom + 32}" fill="#ffffff"/>'
    yield f'<text x="20" y="26" font-size="15" font-weight="bold" fill="#222">{title}</text>'
    for number, (name, row) in enumerate(ROWS.items()):
        top = 52 + STEP * number
        yield from bar(top, row)
        yield f'<text x="120" y="{top + 18}" text-anchor="end" fill="#444">{name}</text>'
        yield f'<text x="120" y="{top + 35}" text-anchor="end" fill="#444">{{{", ".join(members(row))}}}</text>'
    place = LEFT + THRESHOLD * WIDTH
    yield f'<line x1="{place:.1f}" y1="42" x2="{place:.1f}" y2="{bottom - 10}" stroke="{LINE}" stroke-width="2.5"/>'
    words = "threshold, computed from the calibration rows"
    yield f'<text x="510" y="{bottom + 6}" text-anchor="end" fill="{LINE}">{words}</text>'
    words = "a label on the line is included at random: exact coverage"
    yield f'<text x="510" y="{bottom + 23}" text-anchor="end" fill="#55799a" font-size="12">{words}</text>'
    yield "</svg>"


if __name__ == "__main__":
    Path(__file__).parents[1].joinpath("idea.svg").write_text("\n".join(lines()) + "\n", encoding="utf-8")
