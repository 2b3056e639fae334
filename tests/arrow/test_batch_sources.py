"""Where batches come from, what travels along, and errors that name the partition and the row once."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import aptset
from aptset.arrow import set_maker, start_search
from batch_data import NAMES, Capsule, rows, table

P, Y = rows(5000, seed=11)
SENT = table(P, Y)
COMMON = {"labels": "y", "prefix": "p_", "random_state": 0}
THRESHOLD = aptset.calibrate(P, Y, random_state=0).threshold()
CALIBRATION = aptset.calibrate_batches(SENT, **COMMON)


@pytest.mark.parametrize("buckets", [2**18, 20], ids=["one pass", "several"])
@pytest.mark.parametrize(
    "source",
    [
        lambda: SENT,
        lambda: pl.from_arrow(SENT),
        lambda: SENT.to_pandas(),
        lambda: Capsule(SENT),
        lambda: SENT.to_batches(max_chunksize=999),
        lambda: [pl.from_arrow(SENT.slice(0, 10)), pl.from_arrow(SENT.slice(10))],
        lambda: lambda: SENT.to_reader(1000),
        lambda: lambda: iter(SENT.to_batches(max_chunksize=4097)),
        lambda: lambda: Capsule(SENT),
    ],
    ids=["table", "polars", "pandas", "capsule", "batches", "frames", "readers", "iterators", "capsules"],
)
def test_every_source(source, buckets):
    assert aptset.calibrate_batches(source(), buckets=buckets, **COMMON).threshold() == THRESHOLD
    made = aptset.predict_batches(source(), CALIBRATION, prefix="p_").read_all()
    assert made.equals(aptset.predict_batches(SENT, CALIBRATION, prefix="p_").read_all().cast(made.schema))


@pytest.mark.parametrize("once", [lambda: SENT.to_reader(1000), lambda: iter(SENT.to_batches()), lambda: Once(SENT)])
def test_what_is_used_up_is_enough_for_one_pass(once):
    assert aptset.calibrate_batches(once(), **COMMON).threshold() == THRESHOLD
    assert aptset.calibrate_batches(once(), resolution=2**-20, **COMMON).n == 5000
    with pytest.raises(
        ValueError, match=r"readable more than once.*function that returns.*resolution|same rows in every pass"
    ):
        aptset.calibrate_batches(once(), buckets=20, **COMMON)


class Once(Capsule):
    """A stream that does not say that it can be read once."""

    def __arrow_c_stream__(self, requested_schema=None):
        content, self._content = self._content, self._content.slice(0, 0)
        return content.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("wrong", [None, 7, "file.parquet", {"p": [1]}, P, [P], [1, 2]])
def test_what_holds_no_batches(wrong):
    with pytest.raises(TypeError, match=r"batches must (be|hold) record batches.*__arrow_c_stream__"):
        aptset.calibrate_batches(wrong, **COMMON)


def test_nothing_at_all():
    for empty in ([], SENT.slice(0, 0), SENT.schema.empty_table(), iter([]), [SENT.slice(0, 0)] * 3):
        with pytest.raises(ValueError, match="batches must have at least one row; got none"):
            aptset.calibrate_batches(empty, **COMMON)
    assert aptset.predict_batches(SENT.slice(0, 0), CALIBRATION, prefix="p_").read_all().num_rows == 0
    assert aptset.predict_batches([SENT.slice(0, 0)] * 2, CALIBRATION, prefix="p_").schema.names == [
        "row",
        "y",
        "size",
        "set",
    ]
    with pytest.raises(ValueError, match="at least one batch"):
        aptset.predict_batches([], CALIBRATION, prefix="p_")


def with_value(column, row, value):
    values = SENT[column].to_pylist()
    values[row] = value
    return SENT.set_column(SENT.column_names.index(column), column, pa.array(values, SENT.schema.field(column).type))


BAD_ROWS = [
    ("y", None, "column 'y': the label is missing"),
    ("y", "emu", "the label is 'emu', which is no class"),
    ("y", "row 3", "the label is 'row 3', which is no class"),
    ("p_bee", float("nan"), "probabilities must be finite; got nan"),
    ("p_bee", None, "probabilities must be finite; got nan"),
    ("p_bee", -0.5, "probabilities must be at least 0; got -0.5"),
    ("p_bee", 1.5, "probabilities must have rows that sum to 1"),
]


@pytest.mark.parametrize(("column", "value", "what"), BAD_ROWS)
@pytest.mark.parametrize("row", [0, 4800])
def test_bad_rows_are_named_once(column, value, what, row):
    sent = with_value(column, row, value)
    search = start_search(SENT.schema, labels="y", prefix="p_")
    with pytest.raises(ValueError, match="partition 3: ") as failure:
        list(search(sent.to_batches(max_chunksize=700), 3))
    text = str(failure.value)
    assert what in text
    assert text.count(f"row {row}") == text.count("partition") == 1
    assert failure.value.__suppress_context__, "the row of the piece would be a second number"
    with pytest.raises(ValueError, match=f"row {row}") as failure:
        aptset.calibrate_batches(sent, **COMMON)
    assert "partition" not in str(failure.value)
    if column != "y":
        with pytest.raises(ValueError, match=f"partition 9: .*row {row}"):
            list(set_maker(CALIBRATION, SENT.schema, prefix="p_")(sent, 9))
        with pytest.raises(ValueError, match=f"row {row}"):
            aptset.predict_batches(sent, CALIBRATION, prefix="p_").read_all()


def test_bad_lists():
    lists = P.tolist()
    common = {"labels": "y", "probabilities": "p", "classes": NAMES}
    for row, wrong, what in ((17, None, "the probabilities are missing"), (4999, [1.0], "4 classes; it has 1")):
        changed = [*lists[:row], wrong, *lists[row + 1 :]]
        sent = pa.table({"p": changed, "y": SENT["y"]})
        with pytest.raises(ValueError, match=f"row {row}, column 'p': .*{what}"):
            aptset.calibrate_batches(sent, **common)
    inner = [*lists[:9], [0.5, None, 0.25, 0.25], *lists[10:]]
    with pytest.raises(ValueError, match="must be finite; got nan in row 9, column 1"):
        aptset.calibrate_batches(pa.table({"p": inner, "y": SENT["y"]}), **common)
    numbers = pa.table({"p": lists, "y": [*map(float, Y[:-1]), float("nan")]})
    with pytest.raises(ValueError, match="row 4999, column 'y': the label is missing"):
        aptset.calibrate_batches(numbers, labels="y")
    with pytest.raises(ValueError, match="classes must be passed with the list column 'p'"):
        start_search(pa.table({"p": lists, "y": SENT["y"]}).schema, labels="y")
    fixed = table(P[:, :3] / P[:, :3].sum(axis=1, keepdims=True), Y % 3, "fixed")
    with pytest.raises(ValueError, match="each of the 4 classes of the calibration; they have 3"):
        aptset.predict_batches(fixed, CALIBRATION)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"labels": "Y"}, "labels must name a column of the batches; got 'Y'. The columns are 'row', 'p_ant'"),
        ({"prefix": "q_"}, "at least 2 columns of probabilities, which start with 'q_'"),
        ({"prefix": None, "probabilities": ["p_ant", "p_eel"]}, "probabilities must name a column.*got 'p_eel'"),
        ({"prefix": None, "probabilities": ["p_ant", "p_ant"]}, "distinct column names; more than once"),
        ({"prefix": None, "probabilities": ["p_ant", "y"]}, "probabilities must not be labels, groups or ids as well"),
        ({"prefix": None, "probabilities": ["p_ant", "t"]}, "column 't' must hold numbers; it holds string"),
        ({"groups": "region"}, "groups must name a column of the batches; got 'region'"),
        ({"ids": 3}, "ids must name a column of the batches; got 3"),
        ({"classes": ["a", "b"]}, "classes must name each of the 4 columns"),
        ({"resolution": 0.3}, "resolution must be a power of two"),
        ({"buckets": 1}, "buckets must be a whole number from 2"),
        ({"alpha": [0.1, 2]}, r"alpha must be in \(0, 1\); got 2"),
        ({"conformity": "auto"}, "conformity must name a score here"),
        ({"randomized": "yes"}, "randomized must be"),
        ({"ids": "g"}, "ids must tell rows apart; got 3 different ids for 5000 rows"),
    ],
)
def test_wrong_settings(settings, what):
    sent = SENT.append_column("g", pa.array(np.arange(5000) % 3)).append_column("t", SENT["y"])
    with pytest.raises((ValueError, TypeError), match=what):
        aptset.calibrate_batches(sent, **{**COMMON, **settings})


def test_columns_that_change():
    first, rest = SENT.slice(0, 100), SENT.slice(100)
    other = rest.set_column(0, "row", rest["row"].cast(pa.int32()))
    with pytest.raises(ValueError, match="one schema; in batch 1 column 'row' is int32, it was int64"):
        aptset.calibrate_batches([first, other], **COMMON)
    with pytest.raises(ValueError, match="in batch 1 column 'y' is missing, it was string"):
        aptset.calibrate_batches([first, rest.drop_columns(["y"])], **COMMON)


def test_columns_go_by_name_and_others_travel_along():
    """Nested columns, dictionaries and nulls come out as they went in; probabilities stay behind."""
    extra = {
        "tags": pa.array([["a", None], None, []] * 1666 + [["b"], None]),
        "when": pa.array(np.arange(5000), pa.timestamp("us")),
        "kind": pa.array(["x", None] * 2500).dictionary_encode(),
    }
    sent = pa.table({**{f"p_{NAMES[k]}": P[:, k] for k in (2, 0, 3, 1)}, **extra})
    made = aptset.predict_batches(sent, CALIBRATION, prefix="p_").read_all()
    assert made.column_names == ["tags", "when", "kind", "size", "set"]
    assert made.select(list(extra)).to_pylist() == sent.select(list(extra)).to_pylist()
    assert (
        made["set"].to_pylist() == aptset.predict_batches(SENT, CALIBRATION, prefix="p_").read_all()["set"].to_pylist()
    )
    with pytest.raises(ValueError, match=r"missing \['bee'\], unknown \[\]"):
        aptset.predict_batches(sent.drop_columns(["p_bee"]), CALIBRATION, prefix="p_")
    taken = sent.append_column("set", pa.array([1] * 5000))
    assert aptset.predict_batches(taken, CALIBRATION, prefix="p_").schema.names[-2:] == ["size 0.1", "set 0.1"]
    with pytest.raises(ValueError, match=r"room for the columns.*have \['set 0.1'\] already"):
        aptset.predict_batches(taken.append_column("set 0.1", pa.array([1] * 5000)), CALIBRATION, prefix="p_")
    with pytest.raises(ValueError, match="groups must be left out here"):
        aptset.predict_batches(sent, CALIBRATION, prefix="p_", groups="kind")


def test_sets_come_as_they_are_read():
    """Nothing is worked out before it is asked for, and blocks of rows come out before the last ones are there."""
    seen = []

    def batches():
        for batch in SENT.to_batches(max_chunksize=500):
            seen.append(batch)
            yield batch

    made = aptset.predict_batches(batches(), CALIBRATION, prefix="p_")
    assert len(seen) == 1
    assert made.read_next_batch().num_rows == 4096
    assert len(seen) == 9
    by_id = aptset.predict_batches(batches(), CALIBRATION, prefix="p_", ids="row")
    assert by_id.read_next_batch().num_rows == 500


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(NAMES)], ids=["categorical", "enum"])
def test_labels_and_groups_that_polars_keeps_by_number(kind):
    frame = pl.from_arrow(SENT).with_columns(pl.col("y").cast(kind))
    assert aptset.calibrate_batches(frame, **COMMON).threshold() == THRESHOLD
    by = aptset.calibrate_batches(frame.with_columns(g="y"), groups="g", **COMMON).threshold()
    assert by == aptset.calibrate_batches(SENT, groups="label", **COMMON).threshold()


def test_levels_that_six_digits_do_not_tell_apart():
    levels = [0.3, 0.4, 0.3000001, 0.3]
    calibration = aptset.calibrate_batches(SENT, resolution=2**-20, **COMMON)
    found = aptset.predict_batches(SENT, calibration, alpha=levels, prefix="p_").read_all()
    assert found.column_names[2:] == [f"{what} {level}" for level in levels[:3] for what in ("size", "set")]
    for level in levels[:3]:
        assert found[f"size {level}"].to_pylist() == calibration.predict_set(P, level).sizes.tolist()


def test_an_error_of_a_score_stays_in_its_own_words():
    def score(places):
        raise UnicodeDecodeError("utf-8", b"x", 0, 1, "no good")

    with pytest.raises(ValueError, match=r"^partition 3: 'utf-8' codec can't decode"):
        list(start_search(SENT.schema, conformity=score, **COMMON)(SENT, 3))


def test_columns_that_may_have_nulls_in_some_batches_are_named():
    strict = pa.schema([field.with_nullable(False) for field in SENT.schema])
    with pytest.raises(ValueError, match="in batch 1 column 'row' may have nulls or may not"):
        aptset.calibrate_batches([SENT.to_batches()[0], SENT.cast(strict).to_batches()[0]], **COMMON)


def test_every_name_of_the_room_is_there():
    """Names that are loaded when first used stand where the table says."""
    for name in aptset.arrow.__all__:
        assert getattr(aptset.arrow, name) is not None
