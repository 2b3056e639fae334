"""Data sets by name: verified, prepared, and a clear word when they cannot be had."""

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets

from aptset.experiments import datasets
from aptset.experiments.datasets import SOURCES, load_data

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the data folder ../shared/data is not there")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("APTSET_CACHE", str(tmp_path / "cache"))
    datasets._load.cache_clear()
    yield tmp_path / "cache"
    datasets._load.cache_clear()


def write_images(folder, n):
    """Write images and labels as the published files are laid out."""
    generator = np.random.default_rng(0)
    images = generator.integers(256, size=(n, 784), dtype=np.uint8)
    labels = (np.arange(n) % 10).astype(np.uint8)
    (folder / "mnist").mkdir()
    sums = {}
    for name, start, content in (("images-idx3", 16, images), ("labels-idx1", 8, labels)):
        path = folder / "mnist" / f"train-{name}-ubyte.gz"
        path.write_bytes(gzip.compress(bytes(start) + content.tobytes()))
        sums[f"mnist/{path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return images, labels, sums


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    images, labels, sums = write_images(tmp_path, 200)
    source = replace(SOURCES["mnist"], files=sums, shape=(200, 784))
    monkeypatch.setitem(SOURCES, "mnist", source)
    return tmp_path, images, labels


def test_images_become_fifty_standardised_components(small_mnist):
    folder, images, labels = small_mnist
    data = load_data("mnist", folder)
    assert data.X.shape == (200, 50)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.y, labels)
    pixels = images / 255.0
    centred = pixels - pixels.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    scores = centred @ directions[:50].T
    expected = scores / scores.std(axis=0)
    np.testing.assert_allclose(np.abs(data.X[:, :10]), np.abs(expected[:, :10]), atol=2e-2)


def test_a_damaged_file_is_refused(small_mnist):
    folder, _, _ = small_mnist
    path = folder / "mnist" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte.gz must have sha256 .*Fetch it again"):
        load_data("mnist", folder)


def test_prepared_images_are_kept_and_read_again(small_mnist, own_cache, limits, monkeypatch):
    folder, _, _ = small_mnist
    limits(kept_from=1)
    first = load_data("mnist", folder)
    assert len(list(own_cache.glob("mnist-*-prepared.npz"))) == 1
    datasets._load.cache_clear()
    monkeypatch.setitem(SOURCES, "mnist", replace(SOURCES["mnist"], prepare=None))  # it would fail if it were called
    again = load_data("mnist", folder)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)


def test_a_damaged_cache_is_made_again(small_mnist, own_cache, limits):
    folder, _, _ = small_mnist
    limits(kept_from=1)
    first = load_data("mnist", folder)
    (path,) = own_cache.glob("mnist-*-prepared.npz")
    whole = path.read_bytes()
    other = own_cache / "other.npz"
    with np.load(path) as arrays:
        digest = arrays["digest"]
    np.savez(other, X=first.X + 1, y=first.y, digest=digest)
    for content in (whole[:500], b"", other.read_bytes()):
        path.write_bytes(content)
        datasets._load.cache_clear()
        with pytest.warns(UserWarning, match=f"{path.name} is damaged and is made again"):
            np.testing.assert_array_equal(load_data("mnist", folder).X, first.X)
        assert path.read_bytes() == whole


def test_prepared_data_serve_without_the_folder(small_mnist, limits):
    folder, _, _ = small_mnist
    limits(kept_from=1)
    first = load_data("mnist", folder)
    np.testing.assert_array_equal(load_data("mnist").X, first.X)
    assert datasets.source_tag("mnist", None) == datasets.source_tag("mnist", folder)


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(small_mnist, limits, monkeypatch, tmp_path):
    folder, _, _ = small_mnist
    limits(kept_from=1)
    (tmp_path / "file").touch()
    monkeypatch.setenv("APTSET_CACHE", str(tmp_path / "file" / "below"))
    assert load_data("mnist", folder).X.shape == (200, 50)


def test_unknown_names_are_listed():
    with pytest.raises(ValueError, match=r"data set must be among mice, mnist, fashion, cifar10, digits; got 'mnits'"):
        load_data("mnits")


def test_offline_says_what_to_do(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise URLError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)
    with pytest.raises(OSError, match=r"OpenML \(miceprotein, version 4\) could not be reached.*--data DIR"):
        load_data("mice", tmp_path)


class FromOpenML:
    """Stands in for the download: more rows than the paper uses, labels as texts."""

    def __init__(self, n, p, n_classes):
        generator = np.random.default_rng(0)
        self.data = generator.normal(size=(n, p))
        self.target = np.array([f"c{k % n_classes}" for k in range(n)], dtype=object)

    def __call__(self, name, *, version, data_home, as_frame, parser):
        self.asked = (name, version)
        return self


def test_openml_is_used_cut_and_verified(monkeypatch):
    bunch = FromOpenML(1100, 77, 8)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", bunch)
    bunch.data[0, 0] = np.nan
    data = load_data("mice")
    assert bunch.asked == ("miceprotein", 4)
    assert data.X.shape == (1080, 77)
    filled = np.nan_to_num(bunch.data[:1080])
    np.testing.assert_allclose(data.X, (filled - filled.mean(axis=0)) / filled.std(axis=0), atol=1e-12)
    assert sorted(set(data.y.tolist())) == list(range(8))


@pytest.mark.parametrize("wrong", [FromOpenML(1080, 76, 8), FromOpenML(1080, 77, 7), FromOpenML(900, 77, 8)])
def test_other_data_under_the_same_name_are_refused(monkeypatch, wrong):
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", wrong)
    with pytest.raises(ValueError, match=r"data set 'mice' must have shape \(1080, 77\) and 8 classes; got"):
        load_data("mice")


def test_digits_need_no_file():
    data = load_data("digits")
    assert data.X.shape == (1797, 64)
    assert data.n_classes == 10


@needs_shared
def test_the_papers_data_where_they_are():
    mice = load_data("mice", SHARED)
    assert mice.X.shape == (1080, 77)
    assert sorted(np.bincount(mice.y).tolist()) == [105, 135, 135, 135, 135, 135, 150, 150]
    np.testing.assert_allclose(mice.X.mean(axis=0), 0, atol=1e-10)
    cifar = load_data("cifar10", SHARED)
    assert cifar.X.shape == (50_000, 50)
    assert (np.bincount(cifar.y) == 5000).all()
