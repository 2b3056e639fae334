"""Slices over mixed, missing and date columns, in words that a person would use."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.naive_bayes import GaussianNB

import aptset

N = 1200


def patients(seed=0):
    generator = np.random.default_rng(seed)
    days = pd.to_timedelta(generator.integers(0, 1000, N), unit="D")
    return pd.DataFrame(
        {
            "age": np.where(generator.random(N) < 0.2, np.nan, generator.normal(50, 10, N)),
            "smoker": generator.choice(["no", "yes", None], N),
            "admitted": pd.Timestamp("2021-01-01") + days,
            "note": [f"note {row}" for row in range(N)],
        }
    )


def worst(X, missed):
    sets = np.column_stack([~np.asarray(missed), np.ones(N, dtype=bool)])
    return aptset.worst_slice_coverage(sets, np.zeros(N, dtype=int), X)


def test_texts_are_told_by_their_value():
    X = patients()
    found = worst(X, (X["smoker"] == "no").to_numpy())
    assert found.is_worse_than_chance
    assert any(sentence.startswith("smoker is no (") for sentence in found.sentences)
    assert found.chance < 1e-6
    assert "note (1200 different values)" in found.describe()


def test_dates_are_told_by_their_months():
    X = patients()
    early = worst(X[["admitted", "age"]], (X["admitted"] < "2021-06-01").to_numpy())
    assert any(sentence.startswith("admitted before ") and "2021" in sentence for sentence in early.sentences)
    late = worst(X[["admitted", "age"]], (X["admitted"] > "2023-06-01").to_numpy())
    assert any(sentence.startswith("admitted after ") and "2023" in sentence for sentence in late.sentences)


def test_what_is_missing_is_a_slice_of_its_own():
    X = patients()
    found = worst(X[["age", "admitted"]], X["age"].isna().to_numpy())
    assert any(sentence.startswith("age is missing (") for sentence in found.sentences)
    assert found.contains(X[["age", "admitted"]]).sum() > 0
    arrays = worst(X[["age"]].to_numpy(), X["age"].isna().to_numpy())
    assert any(sentence.startswith("x0 is missing (") for sentence in arrays.sentences)


def test_numbers_are_told_by_their_range():
    X = patients()
    found = worst(X[["age", "smoker"]], (X["age"] > 60).to_numpy())
    assert any(sentence.startswith("age is high: mostly 6") for sentence in found.sentences)


def test_no_word_of_averages_of_values_and_one_sentence_a_column():
    X = patients()
    for missed in (X["age"] > 60, X["smoker"] == "yes", X["admitted"] > "2023-01-01"):
        found = worst(X, missed.to_numpy())
        columns = [sentence.split()[0] for sentence in found.sentences]
        assert len(columns) == len(set(columns)) <= 3
        assert "=" not in found.describe().split("where")[-1]


def test_no_slice_is_said_where_none_is_worse_than_chance():
    X, generator = patients(), np.random.default_rng(1)
    found = worst(X, generator.random(N) < 0.1)  # misses fall anywhere: p is uniform, and this seed gives a plain one
    assert found.chance > 0.05
    assert found.describe().startswith("no slice found that is worse than chance: coverage 0.")
    nothing = worst(X, np.zeros(N, dtype=bool))
    assert not nothing.is_worse_than_chance


def test_evaluate_report_and_audit_take_the_same_columns(tmp_path):
    X = patients().drop(columns="note")
    y = np.where(X["smoker"].isna(), "a", "b")
    model = GaussianNB()
    classifier = aptset.ConformalClassifier(_Numbers(model), random_state=0).fit(X, y)
    sets = classifier.predict_set(X)
    assert aptset.evaluate(sets, y, X).worst_slice is not None
    assert aptset.evaluate(sets, y, pl.from_pandas(X)).worst_slice is not None
    page = tmp_path / "page.html"
    aptset.report(classifier, X, y, page)
    assert "The worst slice" in page.read_text()
    found = aptset.audit(_Numbers(model), X, y, repetitions=2, calibrations="split")
    assert found.to_frame()["worst_slice"].notna().all()
    assert "nan" not in repr(found)


class _Numbers(GaussianNB):
    """Sees the age alone."""

    def __init__(self, model=None):
        super().__init__()
        self.model = model

    def fit(self, X, y):
        return super().fit(X[["age"]].fillna(0.0), y)

    def predict_proba(self, X):
        return super().predict_proba(X[["age"]].fillna(0.0))


def test_columns_that_no_slice_is_made_of_are_named():
    with pytest.raises(ValueError, match=r"at least one column to look for slices in.*note \(1200 different values\)"):
        worst(patients()[["note"]], np.zeros(N, dtype=bool))
