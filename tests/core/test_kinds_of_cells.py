"""A kind of cells that the library does not know: one class and one line of a table, as CONTRIBUTING says."""

import numpy as np
import pyarrow as pa
import pytest

import aptset
from aptset.core.groups import KINDS, OF_PAIRS, CellKind, Groups

generator = np.random.default_rng(0)
P = generator.dirichlet(np.ones(6), size=1200)
Y = np.array([generator.choice(6, p=row) for row in P])


class Parity:
    """Even and odd labels: the labels of each have a promise of their own."""

    def groups_of(self, classes):
        return Groups("parity", ("even", "odd"), tuple(column % 2 for column in range(len(classes))))


@pytest.fixture(autouse=True)
def known(monkeypatch):
    words = ("parity", "within even and odd labels", "parities", "so their labels are in every set.")
    stored = frozenset({"kind", "names", "bands"})
    monkeypatch.setitem(KINDS, "parity", CellKind(False, True, *words, stored, with_rows="parity of group"))
    words = ("parity of every group", "within even and odd labels of every group", "parities of groups", "so be it.")
    monkeypatch.setitem(KINDS, "parity of group", CellKind(True, True, *words, OF_PAIRS))


def test_it_answers_as_bands_do(tmp_path):
    """The same cells under another name: sets, masks, p-values, thresholds, levels, files, shards and monitors."""
    bands = aptset.LabelBands({label: ("even", "odd")[label % 2] for label in range(6)})
    ours, theirs = (aptset.calibrate(P[:800], Y[:800], groups=groups, random_state=0) for groups in (Parity(), bands))
    for alpha in (0.1, {"even": 0.05, "odd": 0.2}):
        assert ours.predict_set(P[800:], alpha) == theirs.predict_set(P[800:], alpha)
        np.testing.assert_array_equal(ours.predict_mask(P[800:], alpha), theirs.predict_mask(P[800:], alpha))
        assert ours.threshold(alpha) == theirs.threshold(alpha)
    np.testing.assert_array_equal(ours.p_values(P[800:]), theirs.p_values(P[800:]))
    ours.save(tmp_path / "ours")
    again = aptset.load(tmp_path / "ours")
    assert again.held_out.groups == ours.held_out.groups
    assert again.predict_set(P[800:], 0.1) == theirs.predict_set(P[800:], 0.1)
    halves = [aptset.calibrate(P[a:b], Y[a:b], groups=Parity(), random_state=0) for a, b in ((0, 400), (400, 800))]
    assert halves[0].merge(halves[1]).threshold() == theirs.threshold()
    assert ours.monitor(0.1).update([True], groups=["odd"]).rows == 1
    online = aptset.Online(ours).update(P[800:], Y[800:])
    assert online.alpha_now == aptset.Online(theirs).update(P[800:], Y[800:]).alpha_now


def test_with_folds_weights_and_groups_of_rows():
    bands = aptset.LabelBands({label: ("even", "odd")[label % 2] for label in range(6)})
    folds, region = np.arange(800) % 4, np.arange(1200) % 3
    ours, theirs = (
        aptset.calibrate_cv(P[:800], Y[:800], folds, groups=groups, random_state=0) for groups in (Parity(), bands)
    )
    assert ours.predict_set([P[800:]] * 4, 0.1) == theirs.predict_set([P[800:]] * 4, 0.1)
    ours, theirs = (
        aptset.calibrate(P[:800], Y[:800], groups=(region[:800], groups), random_state=0)
        for groups in (Parity(), bands)
    )
    assert ours.predict_set(P[800:], 0.1, groups=region[800:]) == theirs.predict_set(P[800:], 0.1, groups=region[800:])
    weights = generator.random(1200) + 0.5
    ours, theirs = (
        aptset.calibrate(P[:800], Y[:800], groups=groups, weights=weights[:800], random_state=0)
        for groups in (Parity(), bands)
    )
    assert ours.predict_set(P[800:], weights=weights[800:]) == theirs.predict_set(P[800:], weights=weights[800:])


def test_batches_of_arrow_take_it():
    columns = {f"p_{label}": column for label, column in enumerate(P[:800].T)}
    bands = aptset.LabelBands({str(label): ("even", "odd")[label % 2] for label in range(6)})
    ours, theirs = (
        aptset.calibrate_batches(
            pa.table({**columns, "y": Y[:800]}), labels="y", prefix="p_", groups=groups, random_state=0
        )
        for groups in (Parity(), bands)
    )
    assert ours.threshold() == theirs.threshold()
    assert ours.held_out.groups.kind == "parity"


def test_within_groups_of_rows_it_has_words_too(tmp_path):
    region = np.arange(1200) % 2
    settings = {"groups": (region[:800], Parity()), "random_state": 0}
    calibration = aptset.calibrate(P[:800], Y[:800], **settings)
    calibration.save(tmp_path / "c")
    for asked in (calibration, aptset.load(tmp_path / "c")):
        with pytest.raises(ValueError, match="alpha must name the level of every parity of every group; 'odd' is mis"):
            asked.predict_set(P[800:], {"even": 0.1}, groups=region[800:])
    page = aptset.report(calibration, P[800:], Y[800:], groups=region[800:]).html
    assert "within even and odd labels of every group" in page


def test_bands_within_groups_of_rows_are_not_called_labels():
    """The promise holds within a band of every group, not within every label of it."""
    region, bands = np.arange(1200) % 2, aptset.LabelBands({label: label % 2 for label in range(6)})
    calibration = aptset.calibrate(P[:800], Y[:800], groups=(region[:800], bands), random_state=0)
    page = aptset.report(calibration, P[800:], Y[800:], groups=region[800:]).html
    assert "within every band of labels of every group" in page
    few = aptset.calibrate(P[:4], Y[:4], groups=(region[:4], bands), random_state=0)
    with pytest.warns(UserWarning, match=r"bands of labels in groups with too few .* join bands\."):
        few.predict_set(P[800:], 0.1, groups=region[800:])


def test_where_its_module_is_not_imported_a_file_says_so(tmp_path, monkeypatch):
    aptset.calibrate(P[:800], Y[:800], groups=Parity(), random_state=0).save(tmp_path / "c")
    monkeypatch.delitem(KINDS, "parity")
    with pytest.raises(ValueError, match="'parity' is known once the module that adds it to KINDS is imported"):
        aptset.load(tmp_path / "c")


def test_where_groups_of_rows_are_wanted_it_is_refused_by_its_name():
    sets = aptset.calibrate(P[:800], Y[:800], groups=Parity(), random_state=0).predict_set(P[800:], 0.1)
    with pytest.raises(TypeError, match="got Parity, which are about labels"):
        aptset.evaluate(sets, Y[800:], groups=Parity())


def test_messages_have_its_words():
    calibration = aptset.calibrate(P[:800], Y[:800], groups=Parity(), random_state=0)
    with pytest.raises(ValueError, match="alpha must name the level of every parity; 'odd' is missing"):
        calibration.predict_set(P[800:], {"even": 0.1})
    few = aptset.calibrate(P[:4], [0, 2, 4, 0], groups=Parity(), random_state=0)
    with pytest.warns(UserWarning, match=r"parities with too few .* so their labels are in every set\."):
        few.predict_set(P[800:], 0.1)


def test_the_report_says_where_the_promise_holds():
    calibration = aptset.calibrate(P[:800], Y[:800], groups=Parity(), random_state=0)
    assert "within even and odd labels" in aptset.report(calibration, P[800:], Y[800:]).html
