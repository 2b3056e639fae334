"""Data by name: the paper's two simulated models, with their true probabilities, and real data, verified and prepared.

Real data come from a local folder, from the cache, or from OpenML.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aptset.core.files import atomic_write
from aptset.core.validate import warn_caller


def keep(path: Path, X: NDArray[Any], y: NDArray[Any]) -> None:
    """Keep prepared data; a cache that cannot be written is no reason to stop."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            np.savez(file, X=X, y=y, digest=_digest(X, y))


def check_names(names: Iterable[str], known: Sequence[str], what: str) -> list[str]:
    """Refuse names that are not known, and say which are."""
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"{what} must be among {', '.join(known)}; got {name!r}.")
    return wanted


def check_checksum(path: Path, sha256: str) -> Path:
    """Refuse a file whose content is not the published one."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != sha256:
        raise ValueError(f"{path} must have sha256 {sha256[:16]}...; got {digest[:16]}.... Fetch it again.")
    return path


def kept(path: Path) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return what was kept, or None; a damaged file is named and removed."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            X, y, digest = arrays["X"], arrays["y"], str(arrays["digest"])
        if digest == str(_digest(X, y)):
            return X, y
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass
    warn_caller(f"{path} is damaged and is made again.")
    with suppress(OSError):
        path.unlink()
    return None


def _digest(X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.str_]:
    digest = hashlib.sha256()
    for values in (X, y):
        digest.update(f"{values.shape} {values.dtype}".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return np.array(digest.hexdigest())


_COMPONENTS = 50  # images are reduced to this many
_KEPT_FROM = 1_000_000  # cells of prepared data that took long enough to be kept


class Data(NamedTuple):
    """Features ready for the black boxes, and labels 0, 1, ..."""

    X: NDArray[np.float64]
    y: NDArray[np.intp]
    n_classes: int


class Raw(NamedTuple):
    """What a source holds, before it is prepared."""

    X: NDArray[Any]
    y: NDArray[Any]


@dataclass(frozen=True)
class DataSource:
    """Where a data set comes from, and what it must look like."""

    files: dict[str, str]  # path below the local folder, and sha256
    read: Callable[[list[Path]], Raw]
    openml: str
    version: int
    shape: tuple[int, int]  # of the raw features; later rows of OpenML (the test images) are left out
    n_classes: int
    prepare: Callable[[NDArray[Any]], NDArray[np.float64]]


def _read_idx(paths: list[Path]) -> Raw:
    images, labels = (gzip.decompress(path.read_bytes()) for path in paths)
    return Raw(np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784), np.frombuffer(labels, np.uint8, offset=8))


def _read_mice(paths: list[Path]) -> Raw:
    from pyarrow import csv

    table = csv.read_csv(paths[0])
    proteins = [column.to_numpy() for column in table.columns[1:-4]]
    return Raw(np.column_stack(proteins), np.array(table["class"].to_pylist()))


def _read_prepared(paths: list[Path]) -> Raw:
    with np.load(paths[0]) as arrays:
        return Raw(arrays["X"], arrays["y"])


def _standardised(X: NDArray[Any]) -> NDArray[np.float64]:
    """Missing cells become 0; every column gets mean 0 and variance 1."""
    from sklearn.preprocessing import StandardScaler

    return np.asarray(StandardScaler().fit_transform(np.nan_to_num(np.asarray(X, dtype=np.float64))))


def _components(X: NDArray[Any]) -> NDArray[np.float64]:
    """Return the leading principal components of pixels in [0, 1], standardised, in float32.

    Data that were reduced already (fifty columns) are taken as they are.
    """
    from sklearn.decomposition import PCA

    if X.shape[1] == _COMPONENTS:
        return np.asarray(X)
    reduced = PCA(_COMPONENTS, svd_solver="covariance_eigh").fit_transform(X.astype(np.float32) / 255)
    return _standardised(reduced).astype(np.float32)


SOURCES = {
    "mice": DataSource(
        {"mice_protein.csv.gz": "bb0c1f547e4d476fe956013d823d5bd27802f3631b559209870af08ad248451f"},
        _read_mice,
        "miceprotein",
        4,
        (1080, 77),
        8,
        _standardised,
    ),
    "mnist": DataSource(
        {
            "mnist/train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "mnist/train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        },
        _read_idx,
        "mnist_784",
        1,
        (60_000, 784),
        10,
        _components,
    ),
    "fashion": DataSource(
        {
            "fashion/train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "fashion/train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        },
        _read_idx,
        "Fashion-MNIST",
        1,
        (60_000, 784),
        10,
        _components,
    ),
    "cifar10": DataSource(
        {"cifar10_train_pca50.npz": "90e818b54b4e88d78696f3b50909daad85d6d4409c3701ff138b29a41925c983"},
        _read_prepared,
        "CIFAR_10",
        1,
        (50_000, 3072),
        10,
        _components,
    ),
}
DATA_SETS = (*SOURCES, "digits")


def cache_folder() -> Path:
    """Return where downloads and prepared data are kept: APTSET_CACHE, or the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("APTSET_CACHE") or Path(base) / "aptset")


def load_data(name: str, folder: Path | None = None) -> Data:
    """Return a data set of the paper, or scikit-learn's digits, which need no file.

    Parameters
    ----------
    name : {"mice", "mnist", "fashion", "cifar10", "digits"}
        Which one.
    folder : path, optional
        Where the published files are: mice_protein.csv.gz, mnist/train-images-idx3-ubyte.gz and so on. Without them the
        data come from the cache, or from OpenML, and are verified by their shape.
    """
    check_names([name], DATA_SETS, "data set")
    return _load(name, None if folder is None else Path(folder))


def source_tag(name: str, folder: Path | None) -> str:
    """Say where the data come from: the beginning of a checksum, or a word."""
    if name == "digits":
        return "scikit-learn"
    source = SOURCES[name]
    tag = next(iter(source.files.values()))[:12]
    return tag if _has_files(source, folder) or _kept_path(name, tag).is_file() else "openml"


def _kept_path(name: str, tag: str) -> Path:
    return cache_folder() / f"{name}-{tag}-prepared.npz"


@cache  # one copy in each worker process
def _load(name: str, folder: Path | None) -> Data:
    if name == "digits":
        from sklearn.datasets import load_digits

        X, digits = load_digits(return_X_y=True)
        return Data(_standardised(X), digits, 10)
    source = SOURCES[name]
    again = kept(_kept_path(name, source_tag(name, folder)))
    if again is not None:
        return Data(again[0], again[1], source.n_classes)
    raw = _read(source, folder) if folder and _has_files(source, folder) else _download(name, source, folder)
    names, codes = np.unique(raw.y, return_inverse=True)
    is_reduced = source.prepare is _components and raw.X.shape[1] == _COMPONENTS
    wanted = (source.shape[0], _COMPONENTS if is_reduced else source.shape[1])
    if raw.X.shape != wanted or len(names) != source.n_classes:
        raise ValueError(
            f"data set {name!r} must have shape {wanted} and {source.n_classes} classes; got {raw.X.shape} and "
            f"{len(names)}."
        )
    X, y = source.prepare(raw.X), codes.astype(np.intp)
    if X is not raw.X and X.size >= _KEPT_FROM:
        keep(_kept_path(name, source_tag(name, folder)), X, y)
    return Data(X, y, source.n_classes)


def _has_files(source: DataSource, folder: Path | None) -> bool:
    return folder is not None and all((folder / name).is_file() for name in source.files)


def _read(source: DataSource, folder: Path) -> Raw:
    return source.read([check_checksum(folder / name, sha256) for name, sha256 in source.files.items()])


def _download(name: str, source: DataSource, folder: Path | None) -> Raw:
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of every try that failed
            bunch = fetch_openml(
                source.openml, version=source.version, data_home=str(cache_folder()), as_frame=False, parser="auto"
            )
    except (OSError, ValueError) as error:  # no network, or a source that has moved
        files = list(source.files)
        local = f"{folder} has no {files[0]}" if folder is not None else "no folder was given"
        raise OSError(
            f"data set {name!r} must come from a local folder, the cache or OpenML; {local}, and OpenML "
            f"({source.openml}, version {source.version}) could not be reached ({type(error).__name__}). Pass --data "
            f"DIR with {', '.join(files)}."
        ) from error
    n = source.shape[0]
    return Raw(np.asarray(bunch.data[:n], dtype=np.float64), np.asarray(bunch.target[:n]).astype(str))


class Model(Protocol):
    """A law of (X, Y) whose probabilities are known."""

    n_classes: int

    def draw_features(self, n: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw X."""
        ...

    def probabilities(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(Y = j | x) for every row and label."""
        ...


@dataclass(frozen=True, eq=False)
class Multinomial:
    """Model 1: ten features, the first of which decides how hard a row is; ten labels."""

    beta: NDArray[np.float64]
    n_classes: int = 10

    @classmethod
    def draw(cls, generator: np.random.Generator) -> Multinomial:
        """Draw the coefficients of one repetition."""
        return cls(generator.standard_normal((10, 10)))

    def draw_features(self, n: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """X1 = 1 with probability 1/5, else -8; the others are standard normal."""
        X = generator.standard_normal((n, 10))
        X[:, 0] = np.where(generator.random(n) < 0.2, 1.0, -8.0)
        return X

    def probabilities(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Y = j | x) is proportional to exp(x . beta_j)."""
        logits = X @ self.beta
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Mixed:
    """Model 2: rows are impossible, hard or easy by their first three features; four labels."""

    n_classes: int = 4

    @classmethod
    def draw(cls, generator: np.random.Generator) -> Mixed:
        """Return the model: it has no coefficients to draw."""
        return cls()

    def draw_features(self, n: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Two skewed signs, a fair sign, a label, and a normal feature that means nothing."""
        first, second = np.where(generator.random((2, n)) < 0.25, -1.0, 1.0)
        third = np.where(generator.random(n) < 0.5, -1.0, 1.0)
        label = generator.integers(4, size=n).astype(np.float64)
        return np.column_stack([first, second, third, label, generator.standard_normal(n)])

    def probabilities(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Uniform if X1 = -1; two labels if X2 = -1, which two by X3; else 9/10 on label X4."""
        pairs = np.where(X[:, [2]] < 0, [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5])
        peaked = np.where(np.arange(4) == X[:, [3]], 9 / 10, 1 / 30)
        return np.asarray(np.where(X[:, [0]] < 0, 0.25, np.where(X[:, [1]] < 0, pairs, peaked)))


def draw_labels(probabilities: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.intp]:
    """Draw a label for each row."""
    below = probabilities.cumsum(axis=1)[:, :-1]
    labels: NDArray[np.intp] = (generator.random((len(below), 1)) >= below).sum(axis=1)
    return labels


MODELS: dict[str, Any] = {"model1": Multinomial, "model2": Mixed}
