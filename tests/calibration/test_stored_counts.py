"""Calibrations without scores, saved and read: the same answers, and one error for what was damaged or forged."""

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file

import aptset
from aptset.calibration.stored_fields import hash_of_counts
from forging import forge, taken_apart

GENERATOR = np.random.default_rng(0)
P = GENERATOR.dirichlet(np.ones(3), size=300)
Y = (GENERATOR.random((300, 1)) > P.cumsum(axis=1)[:, :-1]).sum(axis=1)
GROUP = GENERATOR.integers(0, 2, size=300)
TABLE = pa.table({"a": P[:, 0], "b": P[:, 1], "c": P[:, 2], "y": np.array(["a", "b", "c"])[Y], "g": GROUP})


def made(groups=None, resolution=None, **settings):
    common = {"labels": "y", "probabilities": ["a", "b", "c"], "random_state": 0}
    return aptset.calibrate_batches(
        TABLE, alpha=[0.1, 1 / 3], groups=groups, resolution=resolution, **common, **settings
    )


@pytest.mark.parametrize("resolution", [None, 2.0**-20, 2.0**-2])
@pytest.mark.parametrize("groups", [None, "label", "g"])
@pytest.mark.parametrize("conformity", ["adaptive", aptset.Tempered(aptset.Margin(), 0.5)])
def test_saved_and_read(groups, resolution, conformity, tmp_path):
    calibration, path = made(groups, resolution, conformity=conformity), tmp_path / "cal.aptset"
    calibration.save(path)
    read = aptset.load(path)
    by = {"groups": GROUP} if groups == "g" else {}
    assert read.conformity == calibration.conformity
    assert (read.n, read.parts, read.chance) == (calibration.n, calibration.parts, calibration.chance)
    for alpha in (0.1, 1 / 3):
        assert read.threshold(alpha) == calibration.threshold(alpha)
        assert read.predict_set(P, alpha, **by) == calibration.predict_set(P, alpha, **by)
    if resolution is not None:
        assert np.array_equal(read.p_values(P, **by), calibration.p_values(P, **by))
        assert path.stat().st_size < 10_000
        again = aptset.calibrate_batches(
            TABLE.slice(0, 100), labels="y", probabilities=["a", "b", "c"], groups=groups, resolution=resolution,
            conformity=conformity, random_state=0,
        )  # fmt: skip
        assert read.merge(again).threshold(0.2) == calibration.merge(again).threshold(0.2)
    else:
        with pytest.raises(ValueError, match=r"one of 0\.1, 0\.333333; got 0\.2"):
            read.threshold(0.2)


def renew(path, tensors=None, **facts):
    """Rewrite an artefact with other content, a hash and a digest that fit."""
    told, held = taken_apart(path)
    held |= tensors or {}
    forge(path, {**told, "scores_hash": hash_of_counts(held), **facts}, held)


I64 = np.int64
FORGED = [
    (None, {"levels": []}, {}),
    (None, {"levels": ["1/10", "1/10"]}, {}),
    (None, {"levels": ["1/10", "2/20"]}, {}),
    (None, {"levels": ["1/10", "3/2"]}, {}),
    (None, {"levels": ["1/10", 0.3]}, {}),
    (None, {"levels": ["1/10", "1/0"]}, {}),
    (None, {"n": 301}, {}),
    (None, {"n": 2**60}, {}),
    (None, {"scores_hash": "0"}, {}),
    (None, {"kind": "grid"}, {}),
    (None, {"kind": "split"}, {}),
    (None, {}, {"thresholds": np.array([[np.nan], [0.5]])}),
    (None, {}, {"thresholds": np.array([[np.inf], [0.5]])}),
    (None, {}, {"thresholds": np.array([[0.5], [0.9]])}),
    (None, {}, {"thresholds": np.array([[0.9, 0.9], [0.5, 0.5]])}),
    (None, {}, {"sizes": np.array([-300], dtype=I64)}),
    (None, {}, {"sizes": np.array([2**62], dtype=I64)}),
    (0.25, {"kind": "thresholds", "levels": ["1/10"]}, {}),
    (0.25, {"levels": ["1/10"]}, {}),
    (0.25, {"n": 299}, {}),
    (0.25, {"score": {"name": "adaptive", "settings": {}}}, {}),
    (
        0.25,
        {"score": {"name": "gridded", "settings": {"resolution": 0.3, "score": {"name": "adaptive", "settings": {}}}}},
        {},
    ),
    (0.25, {"score": {"name": "gridded", "settings": {"resolution": 0.5}}}, {}),
    (0.25, {}, {"counts": np.array([300, 0, 0, 0], dtype=np.uint16)}),
    (0.25, {}, {"counts": np.array([-(2**62), 2**62, 100, 200], dtype=I64)}),
    (0.25, {}, {"gaps": np.array([0, 1, 0, 1], dtype=np.uint8)}),
    (0.25, {}, {"gaps": np.array([1, 1, 1, 1], dtype=np.uint8)}),
    (0.25, {}, {"gaps": np.array([0, 1, 1, -1], dtype=I64)}),
    (0.25, {}, {"gaps": np.array([0, 2**61, 2**61, 2**61], dtype=I64)}),
    (0.25, {}, {"gaps": np.array([0, 1, 1, 1], dtype=np.float64)}),
    (0.25, {}, {"gaps": np.array([0, 1, 1], dtype=np.uint8)}),
    (0.25, {}, {"lowest": np.array([-(2**63)], dtype=I64)}),
    (0.25, {}, {"offsets": np.array([0, 3], dtype=I64)}),
    (0.25, {}, {"offsets": np.array([1, 4], dtype=I64)}),
]


@pytest.mark.parametrize(("resolution", "facts", "tensors"), FORGED)
def test_forged_files_are_refused(resolution, facts, tensors, tmp_path):
    path = tmp_path / "cal.aptset"
    made(resolution=resolution).save(path)
    assert len(load_file(path).get("gaps", range(4))) == 4, "the forgeries below are made for this"
    renew(path)
    assert aptset.load(path).n == 300, "what is only written anew is read"
    renew(path, tensors, **facts)
    with pytest.raises(ValueError, match="is no intact aptset artefact"):
        aptset.load(path)


@pytest.mark.parametrize("resolution", [None, 2.0**-10])
def test_flipped_bits_and_cut_files(resolution, tmp_path):
    calibration, path = made("label", resolution), tmp_path / "cal.aptset"
    calibration.save(path)
    good, generator = path.read_bytes(), np.random.default_rng(1)
    expected = calibration.threshold(0.1)
    contents = [good[:length] for length in (0, 8, 100, len(good) - 1)]
    for place in generator.integers(len(good), size=150).tolist():
        flipped = bytearray(good)
        flipped[place] ^= 1 << int(generator.integers(8))
        contents.append(bytes(flipped))
    for content in contents:
        path.write_bytes(content)
        try:
            assert aptset.load(path).threshold(0.1) == expected
        except (ValueError, OSError) as error:
            assert str(path) in str(error)  # noqa: PT017 - either is right, and nothing else
