"""A row is the same row however it is sent: the order of its columns, others beside them, and how a value is held."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from aptset import ConformalClassifier, CVPlus, Minimax, load

generator = np.random.default_rng(0)
N = 240
Y = generator.integers(3, size=N)
FRAME = pd.DataFrame(
    {
        "length": generator.normal(size=N).round(2) + Y,
        "count": generator.integers(0, 9, size=N) + Y,
        "colour": generator.choice(["red", "green", "blue"], size=N),
        "flag": generator.random(N) < 0.3 + 0.2 * Y,
        "width": generator.normal(size=N).round(2) - Y,
    }
)
FRAME.loc[::9, "width"] = np.nan
FRAME.loc[4::11, "colour"] = None


def prepared():
    """Return a model that would notice every mix-up: of columns, and of the values in them."""
    texts = make_pipeline(SimpleImputer(strategy="constant", fill_value="?"), OneHotEncoder(sparse_output=False))
    columns = make_column_transformer(
        (SimpleImputer(), ["length", "width", "count", "flag"]), (texts, ["colour"]), sparse_threshold=0.0
    )
    return make_pipeline(columns, GaussianNB())


CLASSIFIER = ConformalClassifier(prepared(), random_state=0).fit(FRAME, Y)
NEW = FRAME.iloc[:60]
P_VALUES, PROBABILITIES = CLASSIFIER.p_values(NEW), CLASSIFIER.predict_proba(NEW)


def same(rows, classifier=CLASSIFIER, which=slice(None)):
    assert np.array_equal(classifier.predict_proba(rows), PROBABILITIES[which]), "the model saw something else"
    assert np.array_equal(classifier.p_values(rows), P_VALUES[which])


def numbers(values, how):
    """Return numbers in one of the ways in which they arrive."""
    listed = [None if value is None or value != value else value for value in values.tolist()]
    if how == "objects":
        return pd.Series(listed, dtype=object)
    if how == "nullable":
        return pd.Series(listed, dtype="Float64")
    whole = all(value is not None and value == int(value) for value in listed)
    return pd.Series(np.array(listed, dtype=np.int64 if whole and how == "whole" else np.float64))


def texts(values, how):
    """Return texts in one of the ways in which they arrive."""
    listed = [None if value != value else value for value in values.tolist()]
    if how == "category":
        return pd.Series(listed, dtype="category")
    missing = {"None": None, "NaN": np.nan, "NA": pd.NA}[how]
    return pd.Series([missing if value is None else value for value in listed], dtype=object)


@settings(max_examples=30, deadline=None)
@given(
    order=st.permutations(["length", "count", "colour", "flag", "width", "note", "length of name"]),
    rows=st.lists(st.integers(0, 59), min_size=1, max_size=8, unique=True),
    of_numbers=st.lists(st.sampled_from(["objects", "nullable", "whole", "floats"]), min_size=4, max_size=4),
    of_texts=st.sampled_from(["category", "None", "NaN", "NA"]),
    holder=st.sampled_from(["frame", "records", "polars", "arrow"]),
)
def test_any_order_any_holder(order, rows, of_numbers, of_texts, holder):
    part = NEW.iloc[rows]
    columns = {
        name: numbers(part[name], how)
        for name, how in zip(["length", "count", "flag", "width"], of_numbers, strict=True)
    }
    columns |= {"colour": texts(part["colour"], of_texts), "note": ["x"] * len(rows), "length of name": [7] * len(rows)}
    frame = pd.DataFrame({name: columns[name] for name in order})
    if holder == "records":
        same(frame.to_dict("records"), which=rows)
    elif holder == "frame":
        same(frame, which=rows)
    else:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        same(pl.from_arrow(table) if holder == "polars" else table.to_pandas(), which=rows)


def test_every_question_goes_by_name():
    shuffled = NEW[NEW.columns[::-1]].assign(id=range(60))
    assert np.array_equal(CLASSIFIER.predict(shuffled), CLASSIFIER.predict(NEW))
    assert CLASSIFIER.score(shuffled, Y[:60]) == CLASSIFIER.score(NEW, Y[:60])
    for asked in ("predict_frame", "act_or_ask", "p_frame"):
        pd.testing.assert_frame_equal(getattr(CLASSIFIER, asked)(shuffled), getattr(CLASSIFIER, asked)(NEW))
    for mine, theirs in zip(CLASSIFIER.confidence(shuffled), CLASSIFIER.confidence(NEW), strict=True):
        assert np.array_equal(mine, theirs)
    assert CLASSIFIER.feature_names_in_.tolist() == FRAME.columns.tolist()


@pytest.mark.parametrize("calibration", [CVPlus(4), Minimax(4)])
def test_several_models_and_one_go(calibration):
    classifier = ConformalClassifier(prepared(), calibration=calibration, random_state=0)
    in_one_go = classifier.fit_predict_set(FRAME, Y, NEW[NEW.columns[::-1]].assign(other="x"))
    classifier.fit(FRAME, Y)
    assert classifier.predict_set(NEW) == in_one_go
    assert classifier.predict_set(NEW[NEW.columns[::-1]].to_dict("records")) == in_one_go


def test_a_column_that_is_not_there_is_one_error(tmp_path):
    for asked in ("predict_set", "p_values", "predict_proba", "predict", "act_or_ask", "predict_frame"):
        with pytest.raises(ValueError, match=r"X must have every column that fit saw; 'flag' is missing \(got"):
            getattr(CLASSIFIER, asked)(NEW.drop(columns="flag"))
    records = NEW.to_dict("records")
    del records[3]["count"]
    with pytest.raises(ValueError, match=r"'count' is missing in row 3 .*Pass a null"):
        CLASSIFIER.predict_set(records)
    with pytest.raises(ValueError, match="'flag' comes 2 times"):
        CLASSIFIER.predict_set(pd.concat([NEW, NEW[["flag"]]], axis=1))


def test_what_was_saved_knows_its_columns(tmp_path):
    CLASSIFIER.save(tmp_path / "folder")
    shuffled = NEW[NEW.columns[::-1]].assign(other=1).to_dict("records")
    for again in (load(tmp_path / "folder"), pickle.loads(pickle.dumps(CLASSIFIER))):
        same(shuffled, again)
        assert again.feature_names_in_.tolist() == FRAME.columns.tolist()


def test_categories_come_back_as_they_were():
    frame = FRAME.assign(colour=pd.Categorical(FRAME["colour"], ["green", "red", "blue"]))
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5)
    classifier = ConformalClassifier(model, random_state=0).fit(frame, Y)
    expected = classifier.p_values(frame[:60])
    again = pickle.loads(pickle.dumps(classifier))
    for rows in (NEW, NEW.to_dict("records"), NEW.assign(colour=NEW["colour"].astype("category"))):
        assert np.array_equal(again.p_values(rows), expected)
    assert np.array_equal(classifier.p_values([NEW.iloc[5].to_dict()])[0], expected[5])
    alone = classifier.predict_set([{**NEW.iloc[5].to_dict(), "colour": "mauve"}])
    assert alone.mask.any(), "the model decides about a category that it never saw"


def test_a_fitted_model_gets_its_own_columns():
    names = ["width", "length", "count"]
    model = GaussianNB().fit(FRAME[names].fillna(0), Y)
    rows = FRAME.fillna({"width": 0}).assign(colour=FRAME["colour"].fillna("?"), id=np.arange(N))
    classifier = ConformalClassifier(FrozenEstimator(model), groups="colour", random_state=0).fit(rows, Y, ids="id")
    assert classifier.feature_names_in_.tolist() == names
    assert np.array_equal(classifier.predict_proba(rows).argmax(1), model.predict(rows[names]))
    new = rows[:60]
    expected = classifier.predict_set(new, ids="id")
    assert classifier.predict_set(new[new.columns[::-1]], ids="id") == expected
    assert classifier.predict_set(new.to_dict("records"), ids="id") == expected
    with pytest.raises(ValueError, match="every column that fit saw; 'width' is missing"):
        ConformalClassifier(FrozenEstimator(model)).fit(rows.drop(columns="width"), Y)


def test_a_grouping_sees_the_columns_of_fit_first():
    classifier = ConformalClassifier(prepared(), groups=lambda X: np.asarray(X)[:, 1] > 4, random_state=0).fit(FRAME, Y)
    shuffled = NEW[NEW.columns[::-1]].assign(other=1)
    assert classifier.predict_set(shuffled) == classifier.predict_set(NEW)


def test_columns_with_numbers_for_names_go_by_them_too():
    values = np.column_stack([FRAME["length"], FRAME["count"]])
    classifier = ConformalClassifier(GaussianNB(), random_state=0).fit(pd.DataFrame(values), Y)
    assert not hasattr(classifier, "feature_names_in_")
    assert classifier.predict_set(pd.DataFrame(values)[[1, 0]]) == classifier.predict_set(values)
    with pytest.raises(ValueError, match="1 is missing"):
        classifier.predict_set(pd.DataFrame(values, columns=[0, 2]))


def test_a_model_of_polars_gets_polars():
    frame = pl.DataFrame(FRAME[["length", "count", "width"]].fillna(0).to_dict("list"))

    class OfPolars(GaussianNB):
        def predict_proba(self, X):
            assert isinstance(X, pl.DataFrame)
            assert X.schema == frame.schema
            return super().predict_proba(X)

    classifier = ConformalClassifier(OfPolars(), random_state=0).fit(frame, Y)
    expected = classifier.predict_set(frame[:60])
    shuffled = frame[:60].select("width", "count", "length").with_columns(note=pl.lit("x"))
    for rows in (shuffled, shuffled.to_pandas(), shuffled.to_dicts(), shuffled.to_arrow()):
        assert classifier.predict_set(rows) == expected


def test_dictionaries_that_a_model_reads_itself():
    rows = [
        {"length": float(length), "colour": str(colour)}
        for length, colour in zip(FRAME["length"], FRAME["colour"], strict=True)
    ]
    model = make_pipeline(DictVectorizer(sparse=False), GaussianNB())
    classifier = ConformalClassifier(model, random_state=0).fit(rows, Y)
    backwards = [dict(reversed(row.items())) for row in rows[:60]]
    assert classifier.predict_set(backwards) == classifier.predict_set(rows[:60])
    whole = [{"length": 3, "colour": "red"}], [{"colour": "red", "length": 3.0}]
    assert np.array_equal(classifier.p_values(whole[0]), classifier.p_values(whole[1]))


def test_dates_are_one_date_wherever_they_come_from():
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(generator.integers(0, 900, size=N), unit="D")
    frame = pd.DataFrame({"day": days, "length": FRAME["length"]})

    class Days(GaussianNB):
        def fit(self, X, y):
            return super().fit(self.read(X), y)

        def predict_proba(self, X):
            return super().predict_proba(self.read(X))

        def read(self, X):
            assert str(X["day"].dtype).startswith("datetime64")
            return np.column_stack([X["length"], X["day"].dt.year])

    classifier = ConformalClassifier(Days(), random_state=0).fit(frame, Y)
    expected = classifier.p_values(frame[:30])
    written = frame[:30].assign(day=[day.isoformat() for day in days[:30]]).to_dict("records")
    assert np.array_equal(classifier.p_values(written), expected)
    assert np.array_equal(
        classifier.p_values(frame[:30].assign(day=days[:30].date).astype({"day": frame["day"].dtype})), expected
    )
