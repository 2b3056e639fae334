"""The only room that clones, fits, calls predict_proba and aligns columns by label; joblib lives here."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _is_arraylike, _num_samples

from aptset.conformal.aggregation import Tally
from aptset.conformal.clusters import Clusters
from aptset.conformal.importance import Scale, Whole, check_some_weight
from aptset.conformal.measure import Fold, FoldScores, Measure, score_fold, scores_of
from aptset.core.groups import Groups, Ids
from aptset.core.labels import columns_of, some
from aptset.core.matrix import OF_ESTIMATOR, check_rows, tolerance_of
from aptset.core.row_seeds import row_seeds
from aptset.core.runner import Shared, with_bar
from aptset.core.validate import warn_caller
from aptset.estimator.checks import is_frozen
from aptset.estimator.decisions import Decisions, remember_rows
from aptset.estimator.models import Encoding
from aptset.kernels.formula import Floats, Formula
from aptset.kernels.rowhash import Words, hash_words, keys_of_columns, mix, seeds_of
from aptset.kernels.rows import Rows

_DROPPED_BITS = 20  # of the 52 of a float64 probability: see `steady`
_BATCHES = 64  # many folds are tallied in this many pieces of work, whatever the number of workers


def take(X: Any, rows: NDArray[np.intp] | slice) -> Any:
    """Return some rows of X, of whatever kind it is."""
    if type(X) is np.ndarray and not isinstance(rows, slice):
        return X.take(rows, axis=0)  # the same, sooner
    return _safe_indexing(X, rows)


@dataclass(frozen=True)
class Samples:
    """Rows of X with all that their scores depend on besides the model."""

    X: Any
    seeds: Words
    u: Floats | None
    ids: Ids | None
    formula: Formula
    key: int
    weights: Floats | None = None
    mass: Whole | None = None  # that new rows bring, (rows, 1), or one for all rows; None where each brings one

    def __len__(self) -> int:
        return len(self.seeds)

    def some(self, rows: NDArray[np.intp] | slice) -> Samples:
        """Return some of the samples."""
        u = None if self.u is None else self.u[rows]
        ids = None if self.ids is None else self.ids[rows]
        weights = None if self.weights is None else self.weights[rows]
        mass = self.mass if self.mass is None or len(self.mass) == 1 else self.mass[rows]
        return Samples(take(self.X, rows), self.seeds[rows], u, ids, self.formula, self.key, weights, mass)

    def stacked(self, n_models: int) -> Samples:
        """Return the samples as often as there are models, without X."""
        u = None if self.u is None else np.tile(self.u, n_models)
        return replace(self, X=None, seeds=np.tile(self.seeds, n_models), u=u, ids=None, weights=None, mass=None)

    def under(self, model: Any, classes: NDArray[Any]) -> Rows:
        """Return the rows of probabilities that a model gives the samples."""
        return self.rows(probabilities_of(model, self.X, classes))

    def rows(self, probabilities: NDArray[np.generic]) -> Rows:
        """Return the rows with these probabilities."""
        return Rows(probabilities, self.formula, self.key, tolerance_of(probabilities), self.seeds, self.u)


def check_columns(model: Any, matrix: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the class of each column of probabilities; refuse what is no matrix of them."""
    columns = columns_of(np.asarray(getattr(model, "classes_", ())), classes)
    if (columns < 0).any():
        raise ValueError(
            f"y must hold every label that the model knows, {some(np.asarray(model.classes_))}; got {some(classes)}. "
            "Wrap a fitted model as a whole in FrozenEstimator."
        )
    if not hasattr(model, "classes_") or matrix.ndim != 2 or matrix.shape[1] != len(model.classes_):
        raise TypeError(
            f"estimator must have classes_ and give one probability per class; {type(model).__name__} gave shape "
            f"{matrix.shape}. Models with several outputs need one ConformalClassifier per output."
        )
    return columns


def fold_error(error: Exception, fold: int, n_folds: int) -> Exception:
    """Return the error of a fold's fit with the fold in its message, of the same type where that is possible."""
    message = f"fold {fold + 1} of {n_folds} failed, nothing was kept: {error}"
    try:
        return type(error)(message)
    except Exception:  # an exception with a constructor of its own
        return RuntimeError(f"{message} ({type(error).__name__})")


@dataclass(frozen=True)
class Training:
    """All that is needed to fit any fold, in any process, and to score its held-out rows."""

    estimator: Any
    samples: Samples
    y: NDArray[Any]
    classes: NDArray[Any]
    groups: Groups
    folds: list[Fold]
    seeds: list[int | None]
    fit_params: dict[str, Any]
    places: NDArray[np.intp] | None = None  # of each row in the order in which they train; None: as they came
    combine: type[Tally] = Tally
    words: Words | None = None  # of the cluster of each row, where rows belong together
    clusters: Clusters | None = None

    def __call__(self, f: int) -> tuple[Any, Any]:
        """Fit fold f and return its model with what is to be remembered of its held-out rows."""
        try:
            model = self.fit_model(f)
            if self.keeps_rows:
                return model, self._remember_rows(model, self.folds[f])
            return model, self.remember(model, self.folds[f])
        except Exception as error:
            if len(self.folds) == 1:
                raise
            raise fold_error(error, f, len(self.folds)) from error

    @property
    def keeps_rows(self) -> bool:
        """Whether held-out rows are kept one by one: those of one model, all of which count the same."""
        alike = self.samples.weights is None and self.words is None
        return len(self.folds) == 1 and alike and self.combine is Tally

    def _remember_rows(self, model: Any, fold: Fold) -> tuple[Any, Decisions]:
        """Return what is to be remembered of the only fold, and its held-out rows one by one."""
        samples, columns = self.samples.some(fold.held_out), columns_of(self.y[fold.held_out], self.classes)
        rows = samples.under(model, self.classes)
        kept, decisions = remember_rows(rows, columns, samples.ids, self.groups)
        return self.combine.remember(kept, rows), decisions

    def remember(self, model: Any, fold: Fold) -> Any:
        """Return what is to be remembered of the held-out rows of a fold."""
        samples, columns = self.samples.some(fold.held_out), columns_of(self.y[fold.held_out], self.classes)
        nothing = np.zeros((0, len(self.classes)))  # few rows: a bag may hold them all, and models take no empty X
        rows = samples.under(model, self.classes) if len(samples) else samples.rows(nothing)
        if samples.weights is None and self.words is None:
            return self.combine.remember(score_fold(rows, columns, samples.ids, self.groups, OF_ESTIMATOR), rows)
        group, scores = self.groups.ids_of_labels(samples.ids, columns), scores_of(rows, columns, OF_ESTIMATOR)
        words = None if self.words is None else self.words[fold.held_out]
        return FoldScores.weighted(scores, samples.weights, group, self.groups, self.scale, words)

    def remember_each(self, probabilities: NDArray[np.generic]) -> list[Any]:
        """Return what is to be remembered of folds of one row each, given the probabilities of these rows."""
        held_out = np.array([fold.held_out[0] for fold in self.folds])
        samples, columns = self.samples.some(held_out), columns_of(self.y[held_out], self.classes)
        rows, group = samples.rows(probabilities), self.groups.ids_of_labels(samples.ids, columns)
        scores, weights = scores_of(rows, columns, OF_ESTIMATOR), samples.weights
        each = [slice(fold, fold + 1) for fold in range(len(held_out))]
        if weights is None:
            return [FoldScores.sort(scores[row], group[row], self.groups) for row in each]
        return [FoldScores.weighted(scores[row], weights[row], group[row], self.groups, self.scale) for row in each]

    @cached_property
    def scale(self) -> Scale | None:
        """From weights to whole numbers: that of all rows that calibrate; None where rows count alike."""
        if self.samples.weights is None:
            return None
        held_out = np.concatenate([fold.held_out for fold in self.folds])
        return Scale.of(check_some_weight(self.samples.weights[held_out], "what weights returns"))

    def join(self, kept: list[Any]) -> Measure:
        """Put together what was remembered of all folds."""
        if self.samples.weights is not None or self.words is not None:
            return Measure(tuple(kept), self.groups, clusters=self.clusters)
        return self.combine.assemble(kept, self.folds, len(self.y), self._score, self.groups)

    def _score(self, probabilities: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """Score the labels of all rows, given probabilities for each; return the group of each row as well."""
        columns, samples = columns_of(self.y, self.classes), self.samples
        rows = replace(samples.rows(probabilities), tolerance=np.inf)  # what they come from was checked
        scores = scores_of(rows, columns, OF_ESTIMATOR)
        return scores, self.groups.ids_of_labels(samples.ids, columns)

    def train_rows(self, f: int) -> NDArray[np.intp]:
        """Return the rows that train the model of fold f, in the order in which they do."""
        rows = self.folds[f].train_rows(len(self.y))
        return rows if self.places is None else rows[np.argsort(self.places[rows])]

    def fit_model(self, f: int) -> Any:
        """Fit the model of fold f."""
        if is_frozen(self.estimator):
            return self.estimator
        rows = self.train_rows(f)
        model = fresh(self.estimator)
        seed = self.seeds[f]
        if seed is not None:
            seed_unseeded(model, seed)
        some_X, some_y = take(self.samples.X, rows), self.y[rows]
        params = _check_method_params(self.samples.X, self.fit_params, indices=rows)
        return fit_on_numbers(model, some_X, some_y, params, len(self.classes))


def fresh(estimator: Any) -> Any:
    """Return an unfitted copy; one that scikit-learn cannot make is built from the settings, as it would be."""
    try:
        return clone(estimator)
    except (RuntimeError, TypeError) as error:  # as CatBoost's with cat_features
        try:
            return type(estimator)(**copy.deepcopy(estimator.get_params(deep=False)))
        except Exception:
            raise TypeError(
                f"estimator must be a model that scikit-learn can clone; got {type(estimator).__name__}: {error}. A "
                "setting that the constructor changes goes to fit instead: CatBoostClassifier() with fit(X, y, "
                "cat_features=[...])."
            ) from error


def fit_on_numbers(model: Any, X: Any, y: NDArray[Any], params: dict[str, Any], n_classes: int) -> Any:
    """Fit a model on numbers for the labels, as many as there are among these rows; it comes back with the labels.

    ``n_classes`` is how many labels there are in all: a model may have an output for each.
    """
    encoding = Encoding(y)
    encoding.settle(model)
    n_labels = len(encoding.labels)
    try:
        model.fit(X, encoding.y, **encoding.fit_params(params))
        shape = (1, n_labels) if n_labels == n_classes > 1 else np.shape(model.predict_proba(take(X, slice(0, 1))))
        if n_labels > 1 or shape == (1, 1):
            return encoding.decoded(model, has_more_outputs=len(shape) == 2 and n_labels < shape[1] <= n_classes)
    except Exception as error:  # of one class: libraries refuse it in words and types of their own
        if n_labels > 1 or not any(word in str(error).lower() for word in ("class", "unique", "label")):
            raise
    warn_caller(
        f"the training rows hold only the class {encoding.labels.tolist()[0]!r}, on which the estimator cannot be "
        "fitted: a constant model is used instead. The sets keep their coverage, but they are large. Pass more rows."
    )
    return encoding.decoded(DummyClassifier(strategy="most_frequent").fit(X, encoding.y))


def seed_unseeded(model: Any, seed: int) -> None:
    """Give every random_state of a model that is None a number drawn from a seed."""
    generator = np.random.default_rng(seed)
    for name, value in sorted(model.get_params(deep=True).items(), key=lambda item: item[0]):
        if value is None and (name == "random_state" or name.endswith("__random_state")):
            model.set_params(**{name: int(generator.integers(2**31))})


def fit_folds(training: Training, n_jobs: int | None, progress: bool) -> list[tuple[Any, Any]]:
    """Fit every fold and keep its model."""
    n_folds = len(training.folds)
    return list(_run(training, list(range(n_folds)), [1] * n_folds, n_jobs, progress))


def tally_folds(
    model_of: Callable[[int], tuple[Any, Any]],
    n_folds: int,
    new: Samples,
    classes: NDArray[Any],
    combine: type[Tally],
    n_jobs: int | None,
    progress: bool = False,
    prefer: str | None = None,
) -> tuple[list[Any], Tally]:
    """Tally new samples under every fold, holding one model per worker (unless they are kept already)."""
    batches = [batch.tolist() for batch in np.array_split(np.arange(n_folds), min(n_folds, _BATCHES))]
    work = partial(_tally_batch, model_of, new, classes, combine)
    total, folds = combine(len(new), len(classes)), []
    for of_batch, tally in _run(work, batches, [len(batch) for batch in batches], n_jobs, progress, prefer):
        folds.extend(of_batch)
        total.merge(tally)
    return folds, total


def _tally_batch(
    model_of: Callable[[int], tuple[Any, Any]],
    new: Samples,
    classes: NDArray[Any],
    combine: type[Tally],
    batch: list[int],
) -> tuple[list[Any], Tally]:
    tally, folds = combine(len(new), len(classes)), []
    for f in batch:
        model, fold = model_of(f)
        rows = new.under(model, classes)
        check_rows(rows.probabilities, tally.add(fold, rows, new.ids), OF_ESTIMATOR, normalize=False)
        folds.append(fold)
        del model, rows  # before the next one is fitted
    return folds, tally


def _run(
    work: Callable[..., Any], items: list[Any], sizes: list[int], n_jobs: int | None, progress: bool, prefer: Any = None
) -> Iterator[Any]:
    """Yield work(item) in the order of the items, from as many workers as asked for."""
    done, shared = 0, Shared(work)
    try:
        parallel = Parallel(n_jobs=n_jobs, prefer=prefer, return_as="generator")
    except ValueError:  # a backend that cannot stream its results: collect them
        parallel = Parallel(n_jobs=n_jobs, prefer=prefer)
    try:
        for result in with_bar(parallel(delayed(_work_on)(shared, item) for item in items), sizes, "folds", progress):
            yield result
            done += 1
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted at fold {sum(sizes[:done]) + 1} of {sum(sizes)}; nothing was kept"
        ) from None


def _work_on(shared: Shared[Callable[..., Any]], item: Any) -> Any:
    return shared.value(item)


def probabilities_of(model: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.generic]:
    """Return the model's probabilities with one column per class; a class the model never saw gets zeros."""
    given, of_model = np.asarray(model.predict_proba(X)), np.asarray(getattr(model, "classes_", ()))
    is_whole = of_model.dtype == classes.dtype and np.array_equal(of_model, classes)
    if is_whole and given.shape[1:] == classes.shape:  # as nearly always
        return steady(given)
    return steady(in_columns(given, check_columns(model, given, classes), classes))


def aligned(given: NDArray[Any], of_model: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities, the last axis of which are the labels of a model, with one column per class."""
    return in_columns(given, columns_of(np.asarray(of_model), classes), classes)


def in_columns(given: NDArray[Any], columns: NDArray[np.int64], classes: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities in these columns of all classes; other classes get zeros."""
    if np.array_equal(columns, np.arange(len(classes))):
        return given
    of_classes = np.zeros((*given.shape[:-1], len(classes)), dtype=given.dtype)
    of_classes[..., columns] = given
    return of_classes


def steady(probabilities: NDArray[np.generic]) -> NDArray[np.generic]:
    """Round float64 probabilities to 33 significant bits.

    A matrix product gives a row slightly different last bits in batches of different sizes. Without this, a label that
    stands exactly at the threshold could be in the set of a row in one batch and not in another (docs/design/0004).
    """
    if probabilities.dtype != np.float64:
        return probabilities
    by_column = probabilities.flags.f_contiguous  # as some models give them: kept, blocks are turned when they are read
    bits = np.ascontiguousarray(probabilities.T if by_column else probabilities).view(np.int64)
    rounded = bits + (1 << (_DROPPED_BITS - 1))
    rounded &= -(1 << _DROPPED_BITS)
    return rounded.view(np.float64).T if by_column else rounded.view(np.float64)


def canonical_places(X: Any, y: NDArray[Any], fit_params: dict[str, Any], key: int) -> NDArray[np.intp]:
    """Return the place of each row in an order that its content alone decides: X, y, and what else it is fitted with.

    Rows put in this order make any way of fitting a symmetric one. Equal rows may come in either order.
    """
    hashes = np.zeros(len(y), dtype=np.uint64)
    for j, part in enumerate((X, y, *_of_rows(fit_params, len(y)))):
        hashes += hash_words(row_seeds(part, key), keys_of_columns(key, np.array([j])))
    places = np.empty(len(y), dtype=np.intp)
    places[np.argsort(seeds_of(hashes, key), kind="stable")] = np.arange(len(y))
    return places


def pair_seeds(X: Any, y: Any, key: int) -> Words:
    """Return the seed of each row of X together with its entry of y."""
    return mix(row_seeds(X, key) + mix(row_seeds(y, key)))


def _of_rows(fit_params: dict[str, Any], n_rows: int) -> Iterator[Any]:
    """Yield what fitting cuts to its rows: everything with one entry for each."""
    for _, value in sorted(fit_params.items()):
        if (_is_arraylike(value) or issparse(value)) and _num_samples(value) == n_rows:
            yield value
