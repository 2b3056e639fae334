"""What comes back keeps the names of the rows, and labels of every kind come back as they are."""

import enum
import io
import sys
from datetime import date

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.core.runner import Bar, with_bar

generator = np.random.default_rng(0)
X = pd.DataFrame(generator.normal(size=(200, 3)), columns=list("abc"), index=[f"row {k}" for k in range(200)][::-1])
codes = (X["a"] > 0).astype(int).to_numpy()


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


class Place(enum.IntEnum):
    FIRST = 1
    THIRD = 3


class Level(enum.StrEnum):
    LOW = "x"
    HIGH = "y"


def fitted(y, **settings):
    return aptset.ConformalClassifier(GaussianNB(), random_state=0, **settings).fit(X, y)


def test_sets_join_the_rows_that_they_belong_to():
    classifier = fitted(codes)
    sets = classifier.predict_set(X)
    some = X.sample(50, random_state=1)
    joined = some.join(sets.to_frame())
    for name, row in joined.iterrows():
        assert row["labels"] == sets[X.index.get_loc(name)].tolist()
    assert sets[10:20].to_frame().index.tolist() == X.index[10:20].tolist()
    assert sets[np.arange(200) < 3].row_names.tolist() == X.index[:3].tolist()
    assert classifier.predict_set(X, [0.1, 0.2])[1].row_names.equals(X.index)
    plain = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X.to_numpy(), codes)
    assert plain.predict_set(X.to_numpy()).to_frame().index.tolist() == list(range(200))
    assert sets.to_frame("polars").columns == ["size", "labels"]


def test_probabilities_in_a_frame_keep_their_index():
    P = pd.DataFrame(generator.dirichlet([1, 1], size=60), columns=["u", "v"], index=np.arange(60) * 7)
    calibration = aptset.calibrate(P, ["u", "v"] * 30, random_state=0)
    assert calibration.predict_set(P).to_frame().index.tolist() == P.index.tolist()


def test_everything_about_a_row_side_by_side():
    classifier = fitted(np.array(["no", "yes"])[codes])
    frame = classifier.predict_frame(X, 0.2)
    p_values, chances = classifier.p_frame(X), classifier.predict_proba(X)
    assert frame.columns.tolist() == ["prediction", "probability", "p_value", "size", "labels"]
    assert frame.index.equals(X.index)
    assert p_values.index.equals(X.index)
    assert p_values.columns.tolist() == ["no", "yes"]
    assert frame["prediction"].tolist() == classifier.predict(X).tolist()
    assert np.array_equal(frame["probability"], chances.max(axis=1))
    picked = [p_values.loc[name, label] for name, label in frame["prediction"].items()]
    assert frame["p_value"].tolist() == picked
    assert frame["labels"].tolist() == [row.tolist() for row in classifier.predict_set(X, 0.2)]
    assert classifier.predict_frame(X, backend="polars").shape == (200, 5)
    assert fitted(codes).p_frame(X).columns.tolist() == [0, 1]


ZONED = [pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2021-01-01", tz="UTC")]
KINDS = {
    "categorical": (pd.Categorical(np.array(["b", "a"])[codes]), ["a", "b"]),
    "series of categories": (pd.Series(np.array(["b", "a"])[codes], dtype="category"), ["a", "b"]),
    "string": (pd.Series(np.array(["b", "a"])[codes], dtype="string"), ["a", "b"]),
    "Int64": (pd.Series(codes, dtype="Int64"), [0, 1]),
    "int8[pyarrow]": (pd.Series(codes, dtype="int8[pyarrow]"), [0, 1]),
    "boolean": (pd.Series(codes == 1, dtype="boolean"), [False, True]),
    "Enum": ([list(Colour)[k] for k in codes], [Colour.RED, Colour.BLUE]),
    "series of Enum": (pd.Series([list(Colour)[k] for k in codes]), [Colour.RED, Colour.BLUE]),
    "levels that never come": (pd.Categorical.from_codes(1 - codes, ["a", "b", "never"]), ["a", "b"]),
    "dates": ([date(2020 + int(k), 1, 1) for k in codes], [date(2020, 1, 1), date(2021, 1, 1)]),
    "times with a zone": (pd.Series([pd.Timestamp(f"202{k}-01-01", tz="UTC") for k in codes]), ZONED),
    "periods": (pd.Series([pd.Period(f"202{k}", freq="Y") for k in codes]), [pd.Period("2020"), pd.Period("2021")]),
    "IntEnum": ([list(Place)[k] for k in codes], [Place.FIRST, Place.THIRD]),
    "StrEnum": ([list(Level)[k] for k in codes], [Level.LOW, Level.HIGH]),
}


@pytest.mark.parametrize("calibration", ["split", "cv+"])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_every_kind(kind, calibration):
    y, classes = KINDS[kind]
    classifier = fitted(y, calibration=calibration)
    assert classifier.classes_.tolist() == classes
    assert [type(label) for label in classifier.classes_.tolist()] == [type(label) for label in classes]
    turned = ("categorical", "series of categories", "string", "levels that never come")
    same = fitted(codes if kind not in turned else 1 - codes)
    if calibration == "split":
        assert np.array_equal(classifier.p_values(X), same.p_values(X))
    assert aptset.evaluate(classifier.predict_set(X), y).coverage > 0.8
    right = [guess == label for guess, label in zip(classifier.predict(X).tolist(), list(y), strict=True)]
    assert classifier.score(X, y) == np.mean(right) > 0.5
    weights = np.arange(len(right))
    assert classifier.score(X, y, weights) == pytest.approx(np.average(right, weights=weights))


@pytest.mark.parametrize("make", [list, pd.Series, lambda y: np.array(y, dtype=object)])
def test_labels_of_two_kinds_are_refused_instead_of_made_texts(make):
    y = make([1 if k else "a" for k in codes])
    first, other = int(np.argmin(codes)), int(np.argmax(codes))
    message = rf"labels of one kind; got .* in row {min(first, other)} and .* in row {max(first, other)}\. Make texts"
    with pytest.raises(TypeError, match=message):
        fitted(y)
    with pytest.raises(TypeError, match="labels of one kind"):
        fitted(make([Colour.RED if k else "red" for k in codes]))


def test_labels_that_no_file_holds_say_what_to_pass_instead(tmp_path):
    with pytest.raises(TypeError, match=r"to be saved; got <Colour.RED: .*>\. Pass texts"):
        fitted([list(Colour)[k] for k in codes]).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_missing_labels_of_pandas_are_named():
    y = pd.Series(codes, dtype="Int64")
    y[3] = pd.NA
    with pytest.raises(ValueError, match=r"no missing labels.*in row 3"):
        fitted(y)


@pytest.mark.parametrize("arrow", [False, True])
def test_features_of_pandas_own_types(arrow):
    frame = pd.DataFrame({"number": X["a"].to_numpy(), "count": generator.integers(5, size=200)})
    frame["kind"], frame["flag"] = generator.choice(["u", "v"], 200), generator.random(200) < 0.5
    frame = frame.astype({"number": "Float64", "count": "Int64", "kind": "category", "flag": "boolean"})
    frame.loc[3, ["number", "count", "flag"]] = pd.NA
    frame = frame.convert_dtypes(dtype_backend="pyarrow") if arrow else frame
    model = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    sets = aptset.ConformalClassifier(model, random_state=0).fit(frame, codes).predict_set(frame)
    assert aptset.evaluate(sets, codes, frame).worst_slice is not None


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_has_a_rate_and_the_time_left(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(with_bar(range(3), [1, 1, 1], "folds", True)) == [0, 1, 2]
    drawn = sys.stderr.getvalue()
    assert "3/3" in drawn
    assert "folds/s" in drawn or "s/ folds" in drawn
    assert "<" in drawn  # tqdm writes the time that passed, and the time left behind it
    rows = Bar(None, "rows", True, unit="rows")
    rows.advance(1_500_000)
    rows.close()
    assert "1.50M rows" in sys.stderr.getvalue()


def test_logs_and_pipes_stay_silent(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert list(with_bar(range(3), [1, 1, 1], "folds", True)) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""


def test_rich_displays_escape_what_comes_from_data():
    y = np.array(["<b>no</b>", "yes"])[codes]
    classifier = fitted(y)
    sets = classifier.predict_set(X)
    evaluation = aptset.evaluate(sets, y, X, p_values=classifier.p_values(X), alpha=0.1)
    assert "Evaluation of 200 prediction sets" in evaluation._repr_html_()
    assert "coverage >= 0.9" in classifier._repr_mimebundle_()["text/html"].replace("&gt;", ">")
    assert evaluation.plot("curve")._repr_png_()[:4] == b"\x89PNG"
    assert evaluation.plot("by_label")._repr_png_()[:4] == b"\x89PNG"
    assert "<b>no</b>" not in sets._repr_html_()
    assert "calibration rows" in classifier.calibration_._repr_html_()
    found = aptset.compare({"a": GaussianNB(), "<i>": GaussianNB(var_smoothing=1.0)}, X, y, repetitions=2)
    assert "Recommended" in found._repr_html_()
    assert "<i>" not in found._repr_html_()
    assert "Drift" in aptset.audit(GaussianNB(), X, y, repetitions=2, calibrations="split")._repr_html_()


def test_figures_say_what_they_need():
    evaluation = aptset.evaluate(fitted(codes).predict_set(X), codes)
    with pytest.raises(ValueError, match=r"kind 'curve' needs p_values: pass p_values=classifier.p_values\(X\)"):
        evaluation.plot("curve")
    with pytest.raises(ValueError, match="kind 'by_group' needs groups"):
        evaluation.plot("by_group")
