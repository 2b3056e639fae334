"""Pictures by one convention: plot(kind) gives a figure and its table, and help lists what can be drawn."""

import numpy as np
import pytest

import aptset
from aptset.metrics import BREAKDOWNS

CHANCES = np.random.default_rng(0).dirichlet([0.5] * 3, size=400)
Y = (np.random.default_rng(1).random((400, 1)) > CHANCES.cumsum(axis=1)[:, :-1]).sum(axis=1)
CALIBRATION = aptset.calibrate(CHANCES[:200], Y[:200], random_state=0)
SETS = CALIBRATION.predict_set(CHANCES[200:], 0.1)
WHOLE = {
    "alpha": 0.1,
    "groups": Y[200:] > 0,
    "probabilities": CHANCES[200:],
    "p_values": CALIBRATION.p_values(CHANCES[200:]),
}
KINDS = [*BREAKDOWNS, "reliability", "curve"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed_by_help_and_drawn(kind):
    assert f'"{kind}"' in aptset.Evaluation.plot.__doc__
    shown = aptset.evaluate(SETS, Y[200:], **WHOLE).plot(kind)
    axes = shown.draw()
    assert axes.get_title() == shown.title
    assert list(shown.frame().columns) == list(shown.columns)
    assert SETS.plot(kind, Y[200:], **WHOLE).frame().equals(shown.frame())
    axes.figure.clf()


def test_sets_draw_their_sizes_without_labels_and_say_what_else_needs():
    frame = SETS.plot().frame()
    assert dict(zip(frame["size"], frame["n"] * frame["share of sets"], strict=True)) == pytest.approx(
        {size: (SETS.sizes == size).sum() for size in np.unique(SETS.sizes)}
    )
    with pytest.raises(ValueError, match=r"needs the true labels: sets\.plot\('by_label', y\)"):
        SETS.plot("by_label")
    with pytest.raises(ValueError, match="needs probabilities"):
        SETS.plot("reliability", Y[200:])


def test_reliability_compares_what_the_model_says_with_what_came():
    frame = aptset.evaluate(SETS, Y[200:], **WHOLE).plot("reliability").frame()
    for _, row in frame.iterrows():
        rows = np.flatnonzero(SETS.sizes == row["size"])
        claimed = np.mean([CHANCES[200 + i, SETS.indices[SETS.indptr[i] : SETS.indptr[i + 1]]].sum() for i in rows])
        assert row["probability by the model"] == pytest.approx(claimed)
        assert row["coverage"] == SETS.covers(Y[200:])[rows].mean()


def test_html_displays_hold_what_the_text_has():
    evaluation = aptset.evaluate(SETS, Y[200:], **WHOLE)
    html = evaluation._repr_html_()
    for line in ("lowest coverage by label", "lowest coverage by group", f"{evaluation.coverage.count} of 200"):
        assert line in html
    assert "... 194 more rows" in SETS._repr_html_()
    assert "... 194 more rows" in repr(SETS)
