"""Bands of labels in every face, and what is kept of them."""

import copy
import pickle

import numpy as np
import pytest
from bands_data import BANDS, NEW, P, Y, same

import aptset
from aptset import LabelBands
from forging import change


def test_saved_merged_copied(tmp_path):
    common = {"groups": BANDS, "random_state": 0, "conformity": "raps"}
    whole = aptset.calibrate(P, Y, **common)
    whole.save(tmp_path / "cal.aptset")
    same(aptset.load(tmp_path / "cal.aptset"), whole)
    same(copy.deepcopy(whole), whole)
    same(pickle.loads(pickle.dumps(whole)), whole)
    first, second = aptset.calibrate(P[:200], Y[:200], **common), aptset.calibrate(P[200:], Y[200:], **common)
    same(first.merge(second), whole)
    other = aptset.calibrate(P[200:], Y[200:], **{**common, "groups": LabelBands({i: i % 2 for i in range(6)})})
    with pytest.raises(ValueError, match="differs in bands of labels"):
        first.merge(other)
    with pytest.raises(ValueError, match="differs in kind of groups, bands of labels"):
        first.merge(aptset.calibrate(P[200:], Y[200:], **{**common, "groups": "label"}))


def test_tuned_with_bands():
    tuned = aptset.tune(
        P, Y, candidates=["aps", "lac", aptset.Prevalence(dict.fromkeys(range(6), 3))], groups=BANDS, random_state=0
    )
    rest = ~tuned.reserved
    again = aptset.calibrate(
        P[rest], Y[rest], conformity=tuned.conformity, groups=BANDS, ids=np.arange(500)[rest], random_state=0
    )
    assert tuned.calibration.held_out.groups == again.held_out.groups
    assert tuned.calibration.held_out.sizes.tolist() == again.held_out.sizes.tolist()


def test_in_a_classifier(tmp_path):
    from sklearn.base import clone
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB

    X, y = load_digits(return_X_y=True)
    names = np.array(list("abcdefghij"))[y]
    bands = LabelBands({label: label in "aei" for label in "abcdefghij"})
    for calibration in ("split", aptset.CVPlus(3), aptset.Bootstrap(10)):
        classifier = clone(
            aptset.ConformalClassifier(GaussianNB(), calibration=calibration, groups=bands, random_state=0)
        )
        sets = classifier.fit(X[:900], names[:900]).predict_set(X[900:])
        np.testing.assert_array_equal(sets.mask, classifier.p_values(X[900:]) > 0.1)
        assert classifier.fit_predict_set(X[:900], names[:900], X[900:]) == sets
        classifier.fit(X[:900], names[:900]).save(tmp_path / "folder")
        loaded = aptset.load(tmp_path / "folder")
        assert loaded.groups == bands
        assert loaded.predict_set(X[900:]) == pickle.loads(pickle.dumps(classifier)).predict_set(X[900:]) == sets
    assert classifier.calibration_.held_out.groups.names == (True, False)
    with pytest.raises(TypeError, match="is about labels, not rows"):
        aptset.ConformalClassifier(GaussianNB()).fit(X, names, groups=bands)
    plain = aptset.ConformalClassifier(GaussianNB(), groups=bands, random_state=0)
    order = np.random.default_rng(0).permutation(len(X))[:600]
    audit = aptset.audit(plain, X[order], names[order], repetitions=2)
    assert {row.name for row in audit.summary() if row.part == "group"} == {"True", "False"}
    other = aptset.compare({"bands": plain, "plain": GaussianNB()}, X[order], names[order], repetitions=2)
    assert "macro" in repr(other)
    page = aptset.report(classifier, X[900:1200], names[900:1200]).html
    assert "within every band of labels, 2 of them" in page


def test_in_batches_and_in_the_monitor(tmp_path):
    import pyarrow as pa

    names = [f"p_{label}" for label in range(6)]
    table = pa.table({**dict(zip(names, P.T, strict=True)), "y": Y})
    bands = LabelBands({str(label): band for label, band in BANDS.bands.items()})
    plain = aptset.calibrate(P, Y.astype(str), classes=list("012345"), groups=bands, random_state=0)
    found = aptset.calibrate_batches(table, labels="y", prefix="p_", groups=bands, alpha=[0.1, 0.3], random_state=0)
    assert found.threshold(0.3) == plain.threshold(0.3)
    assert found.predict_set(NEW, [0.1, 0.3]) == plain.predict_set(NEW, [0.1, 0.3])
    grid = aptset.calibrate_batches(table, labels="y", prefix="p_", groups=bands, resolution=2**-20, random_state=0)
    kept = aptset.calibrate(
        P,
        Y.astype(str),
        classes=list("012345"),
        conformity=aptset.Gridded(aptset.Adaptive(), 2**-20),
        groups=bands,
        random_state=0,
    )
    np.testing.assert_array_equal(grid.p_values(NEW), kept.p_values(NEW))
    for each in (found, grid):
        each.save(tmp_path / "counts.aptset")
        assert aptset.load(tmp_path / "counts.aptset").predict_set(NEW, 0.1) == each.predict_set(NEW, 0.1)
    monitor = plain.monitor(0.1)
    labels = Y[:50].astype(str)
    monitor.update(plain.predict_set(P[:50], 0.1, ids=np.arange(50)).covers(labels), groups=bands.of(labels))
    assert monitor.rows == 50


def test_forged_bands_are_refused(tmp_path):
    path = tmp_path / "cal.aptset"
    kept = aptset.calibrate(
        P, Y, groups=BANDS, conformity=aptset.Prevalence(dict.fromkeys(range(6), 1)), random_state=0
    )
    kept.save(path)
    names, bands = list(kept.held_out.groups.names), list(kept.held_out.groups.bands)
    for wrong in (
        [0] * 6,
        bands[:-1],
        [*bands[:-1], 7],
        [*bands[:-1], -1],
        [float(b) for b in bands],
        "012",
        bands[::-1],
    ):
        kept.save(path)
        change(path, groups={"kind": "band", "names": names, "bands": wrong})
        with pytest.raises(ValueError, match="its bands must number the 3 bands of its 6 classes"):
            aptset.load(path)
    for groups in ({"kind": "band", "names": names}, {"kind": "row", "names": names, "bands": bands}):
        kept.save(path)
        change(path, groups=groups)
        with pytest.raises(ValueError, match="its groups must be of kind"):
            aptset.load(path)
    labels = list(range(6))
    for stored in (
        {"labels": labels[:5], "counts": [1] * 5},
        {"labels": labels, "counts": [1] * 5},
        {"labels": labels, "counts": [-1] * 6},
        {"labels": [0] * 6, "counts": [1] * 6},
        {"labels": [[0]] * 6, "counts": [1] * 6},
        {"labels": labels},
        {},
        None,
    ):
        kept.save(path)
        change(path, score={"name": "prevalence", "settings": stored})
        with pytest.raises(ValueError, match="is no intact aptset artefact"):
            aptset.load(path)
