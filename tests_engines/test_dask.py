"""A real cluster of dask, with processes: any partitions and workers give the bits of one process."""

import os
import pickle
from contextlib import contextmanager

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counted_model import Counted
from dask_data import COLUMNS, NAMES, as_lists, deadly, frame_of, generated, matrix_of, other_rows

import aptset

dask = pytest.importorskip("dask", reason="dask is an extra: make test-engines")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
import aptset.dask as on_dask  # noqa: E402

FRAME, NEW = frame_of(6000, 0), frame_of(3000, 1)


@contextmanager
def cluster_of(n_workers, processes):
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    """Two processes."""
    with cluster_of(2, processes=True) as client:
        yield client


def in_one_process(groups=None, ids=None, resolution=None, alpha=0.1, of=FRAME, new=NEW):
    """The calibration of all rows at once, and the sets of new ones, as lists of labels."""
    score = aptset.Adaptive() if resolution is None else aptset.Gridded(aptset.Adaptive(), resolution)
    by = groups if groups in (None, "label") else of[groups]
    given = {} if ids is None else {"ids": of[ids]}
    whole = aptset.calibrate(
        matrix_of(of), of["y"], classes=NAMES, groups=by, conformity=score, random_state=3, **given
    )
    new_by = {"groups": new[groups]} if groups not in (None, "label") else {}
    new_ids = {} if ids is None else {"ids": new[ids]}
    return whole, [labels.tolist() for labels in whole.predict_set(matrix_of(new), alpha, **new_by, **new_ids)]


def sets_in(made, column="set"):
    return [list(labels) for labels in made[column]]


SETTINGS = [
    {},
    {"groups": "label"},
    {"groups": "g"},
    {"ids": "id"},
    {"resolution": 2**-20},
]


@pytest.mark.parametrize(
    ("setting", "n_partitions"), [({}, 1), ({}, 2), *((setting, 7) for setting in SETTINGS)], ids=str
)
def test_partitions_do_not_matter(client, setting, n_partitions):
    whole, expected = in_one_process(**setting)
    rows = dd.from_pandas(FRAME, npartitions=n_partitions)
    found = on_dask.calibrate(rows, "y", prefix="p_", random_state=3, buckets=400, **setting)
    np.testing.assert_array_equal(np.array(found.threshold(0.1)), np.array(whole.threshold(0.1)))
    assert (found.n, found.parts) == (whole.n, whole.parts)
    by = {name: setting[name] for name in ("groups", "ids") if setting.get(name, "label") != "label"}
    new = dd.from_pandas(NEW.set_index("when"), npartitions=n_partitions)
    sets = on_dask.predict_set(new, found, prefix="p_", alpha=0.1, **by)
    assert isinstance(sets, dd.DataFrame)
    assert sets.divisions == new.divisions
    made = sets.compute()
    assert sets_in(made) == expected
    assert made["size"].tolist() == [len(labels) for labels in expected]
    assert made.dtypes.to_dict() == sets.dtypes.to_dict() == sets._meta.dtypes.to_dict()
    assert made["set"].dtype == pd.ArrowDtype(pa.list_(pa.string()))
    assert made["size"].dtype == np.int32
    pd.testing.assert_frame_equal(made[["y", "g", "id"]], new.compute()[["y", "g", "id"]])


@pytest.mark.parametrize("where", ["seven workers", "threads", "synchronous"])
def test_workers_do_not_matter(where):
    whole, expected = in_one_process()
    rows = dd.from_pandas(FRAME, npartitions=9)

    def check():
        found = on_dask.calibrate(rows, "y", prefix="p_", alpha=[0.1, 0.05], random_state=3, buckets=400)
        assert [found.threshold(a) for a in (0.1, 0.05)] == [whole.threshold(a) for a in (0.1, 0.05)]
        made = on_dask.predict_set(dd.from_pandas(NEW, npartitions=5), found, prefix="p_").compute()
        assert sets_in(made, "set 0.1") == expected

    if where == "seven workers":
        with cluster_of(7, processes=False):
            check()
    else:
        with dask.config.set(scheduler=where):
            check()


def uneven(frame, *sizes):
    """A dask frame with partitions of these sizes; the last one has the rest."""
    ends = np.cumsum([0, *sizes]).tolist()
    parts = [frame.iloc[start:stop] for start, stop in zip(ends, [*ends[1:], None], strict=True)]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=frame.iloc[:0], verify_meta=False)


def test_skewed_and_empty_partitions(client):
    whole, expected = in_one_process()
    found = on_dask.calibrate(uneven(FRAME, 0, 1, 5500, 0), "y", prefix="p_", random_state=3, buckets=400)
    assert found.threshold() == whole.threshold()
    made = on_dask.predict_set(uneven(NEW, 0, 2990, 0, 0), found, prefix="p_").compute()
    assert sets_in(made) == expected
    with pytest.raises(ValueError, match="at least one row; got none"):
        on_dask.calibrate(uneven(FRAME[:0], 0, 0), "y", prefix="p_")
    nothing = on_dask.predict_set(uneven(NEW[:0], 0), found, prefix="p_")
    assert nothing.compute().dtypes.to_dict() == nothing.dtypes.to_dict()


def test_a_thousand_classes_as_lists(client):
    """Lists of Arrow, lists of numpy as read_parquet gives them, and the array itself."""
    generator = np.random.default_rng(4)
    p = generator.dirichlet(np.full(1000, 0.05), size=600).astype(np.float32)
    y = generator.integers(0, 1000, 600)
    whole = aptset.calibrate(p, y, random_state=3)
    expected = [labels.tolist() for labels in whole.predict_set(p)]
    arrow = pd.DataFrame({"p": as_lists(p), "y": y})
    plain = pd.DataFrame({"p": list(p), "y": y})
    with dask.config.set({"dataframe.convert-string": False}):  # else dask writes lists as texts
        forms = [uneven(arrow, 0, 200), uneven(plain, 0, 0, 200)]
    for rows in forms:
        found = on_dask.calibrate(rows, "y", random_state=3)
        assert found.threshold() == whole.threshold()
        assert sets_in(on_dask.predict_set(rows, found).compute()) == expected
    rows = da.from_array(p, chunks=(250, 300))
    found = on_dask.calibrate(rows, da.from_array(y, chunks=70), random_state=3)
    assert found.threshold() == whole.threshold()
    sets = on_dask.predict_set(rows, found)
    assert sets.divisions == (0, 250, 500, 599)
    made = sets.compute()
    assert sets_in(made) == expected
    assert made.index.tolist() == list(range(600))


def test_parquet_there_and_back(client, tmp_path):
    """Files are read by column, partitions stay files, and sets are written as lists that others read."""
    lists = pa.table({"p": pa.array(list(matrix_of(FRAME)))})
    table = pa.table({**{name: FRAME[name] for name in FRAME}, "p": lists["p"], "more": np.ones(6000)})
    for number, start in enumerate((0, 4000)):
        pq.write_table(table.slice(start, 4000), tmp_path / f"{number}.parquet")
    whole, _ = in_one_process(new=FRAME)
    rows = dd.read_parquet(str(tmp_path))
    for columns in ({"prefix": "p_"}, {"probabilities": "p", "classes": NAMES}):
        found = on_dask.calibrate(rows, "y", random_state=3, **columns)
        assert found.threshold() == whole.threshold()
    sets = on_dask.predict_set(rows[[*COLUMNS, "id"]], whole, prefix="p_", alpha=0.1)
    assert sets.npartitions == 2
    sets.to_parquet(tmp_path / "sets")
    sets.astype({"set": object}).to_parquet(tmp_path / "plain", schema=None)
    expected = [labels.tolist() for labels in whole.predict_set(matrix_of(FRAME), 0.1)]
    for again in (
        pq.read_table(tmp_path / "sets").to_pylist(),
        pd.read_parquet(tmp_path / "sets", dtype_backend="pyarrow").to_dict("records"),
        pd.read_parquet(tmp_path / "plain").to_dict("records"),
    ):
        assert [list(row["set"]) for row in again] == expected
        assert [row["id"] for row in again] == FRAME["id"].tolist()


def test_arrays_with_groups_ids_and_unknown_lengths(client):
    p, numbers = matrix_of(FRAME), FRAME["y"].map(NAMES.index).to_numpy()
    whole = aptset.calibrate(p, numbers, groups=FRAME["g"], ids=FRAME["id"], random_state=3)
    expected = [labels.tolist() for labels in whole.predict_set(p, groups=FRAME["g"], ids=FRAME["id"])]
    rows = dd.from_pandas(FRAME, npartitions=5)
    lazily = {"groups": rows["g"], "ids": rows["id"]}
    at_hand = {"groups": FRAME["g"], "ids": FRAME["id"].to_numpy()}
    cases = [
        (rows[COLUMNS].to_dask_array(), rows["y"].map(NAMES.index, meta=("y", int)), lazily),
        (da.from_array(p, chunks=(2500, 2)), numbers.tolist(), at_hand),
    ]
    for array, labels, others in cases:
        found = on_dask.calibrate(array, labels, random_state=3, **others)
        np.testing.assert_array_equal(found.threshold(), whole.threshold())
        sets = on_dask.predict_set(array, found, **others)
        assert sets_in(sets.compute()) == expected
    assert sets.divisions == (0, 2500, 5000, 5999)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("p_bee", np.nan, "partition 2: .*row 7"),
        ("p_bee", 7.0, "partition 2: .*row 7"),
        ("y", None, "partition 2: row 7, column 'y': the label is missing"),
        ("y", "elk", "partition 2: row 7, column 'y': the label is 'elk', which is no class"),
    ],
)
def test_a_bad_row_is_named_once(client, column, value, said):
    bad = FRAME.copy()
    bad.loc[4007, column] = value
    rows = uneven(bad, 1000, 3000, 1500)
    with pytest.raises(ValueError, match=said) as caught:
        on_dask.calibrate(rows, "y", prefix="p_")
    assert str(caught.value).count("partition") == str(caught.value).count("row 7") == 1
    if column == "p_bee":
        whole, _ = in_one_process()
        sets = on_dask.predict_set(rows, whole, prefix="p_")
        with pytest.raises(ValueError, match=said):
            sets.compute()


def test_missing_groups_and_lists(client):
    """A missing group is a group; a missing list is named, also where a partition has nothing else."""
    some = FRAME.assign(g=FRAME["g"].where(np.arange(6000) % 3 > 0, None))
    whole = aptset.calibrate(matrix_of(some), some["y"], classes=NAMES, groups=some["g"], random_state=3)
    found = on_dask.calibrate(uneven(some, 10, 3000), "y", prefix="p_", groups="g", random_state=3)
    np.testing.assert_array_equal(found.threshold(), whole.threshold())
    lists = pd.DataFrame({"p": list(matrix_of(FRAME)), "y": FRAME["y"]})
    lists.loc[5000:, "p"] = None
    with dask.config.set({"dataframe.convert-string": False}):
        rows = uneven(lists, 0, 5000)
    with pytest.raises(ValueError, match="partition 2: row 0, column 'p': the probabilities are missing"):
        on_dask.calibrate(rows, "y", classes=NAMES)


def test_little_comes_to_the_client(client, monkeypatch):
    """One state a pass, whatever the number of rows and partitions."""
    came, get = [], distributed.Client.get

    def weighed(*arguments, **options):
        found = get(*arguments, **options)
        came.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(distributed.Client, "get", weighed)
    most = []
    for n in (500, 5_000):
        rows = dd.from_map(generated, range(12), n=n, meta=generated(0, 0))
        assert on_dask.calibrate(rows, "y", prefix="p_", buckets=2**9, random_state=3).n == 12 * n
        assert 2 <= len(came) <= 3, "one state in each of two or three passes"
        most.append(max(came))
        came.clear()
    assert max(most) < 16 * 2**9 + 4096, "16 bytes a bucket, and what names the state"
    assert most[1] < 2 * most[0]


def test_predicting_is_lazy_and_part_by_part(client, tmp_path):
    """Nothing runs before compute, and one partition is as it is among all: copies keep their chance."""
    copies = NEW.assign(**dict.fromkeys(COLUMNS, 0.25))
    whole, _ = in_one_process()
    cut = np.array_split(np.arange(len(NEW)), 3)
    places = [None, str(tmp_path), None]
    new = dd.from_map(deadly, [copies.iloc[some] for some in cut], places, fatal=(), meta=copies.iloc[:0])
    sets = on_dask.predict_set(new, whole, prefix="p_")
    assert not list(tmp_path.iterdir())
    everything = sets.compute()
    assert len({tuple(labels) for labels in everything["set"]}) > 1
    assert sets_in(everything.iloc[:1000]) != sets_in(everything.iloc[1000:2000]), "copies elsewhere are other copies"
    assert sets_in(sets.partitions[2].compute()) == sets_in(everything.iloc[2000:])
    assert sets_in(sets.get_partition(1).head(5)) == sets_in(everything.iloc[1000:1005])


def test_other_rows_in_the_second_pass_are_noticed(client, tmp_path):
    rows = dd.from_map(other_rows, range(3), place=str(tmp_path), meta=FRAME.iloc[:0])
    with pytest.raises(ValueError, match="same rows in every pass; the first had 6000 rows"):
        on_dask.calibrate(rows, "y", prefix="p_", buckets=400)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: on_dask.calibrate(FRAME, "y"), TypeError, "rows must be a dask DataFrame .* got pandas.*DataFrame"),
        (lambda: on_dask.calibrate(ROWS, ROWS["y"]), TypeError, "labels must name a column .* got Series"),
        (lambda: on_dask.calibrate(ROWS, "z"), ValueError, "labels must name a column .* got 'z'"),
        (lambda: on_dask.calibrate(ROWS, "y", groups=FRAME["g"]), TypeError, "groups must name a column"),
        (lambda: on_dask.calibrate(ROWS.rename(columns={"g": 3}), "y"), ValueError, "called by texts.* got 3"),
        (lambda: on_dask.calibrate(ARRAY, "y"), TypeError, "labels must be an array .* got 'y'"),
        (lambda: on_dask.calibrate(ARRAY, None), TypeError, "labels must be an array .* got None"),
        (lambda: on_dask.calibrate(ARRAY, [1, 2]), ValueError, "one value a row; got 2 for 40 rows"),
        (lambda: on_dask.calibrate(ARRAY, np.zeros((40, 1))), ValueError, r"one value a row; got .* \(40, 1\)"),
        (lambda: on_dask.calibrate(ARRAY[0], [1]), ValueError, r"shape \(4,\)"),
        (lambda: on_dask.calibrate(ARRAY, np.zeros(40), prefix="p"), ValueError, "prefix must be left out"),
        (lambda: on_dask.calibrate(ARRAY, np.zeros(40), alpha=2), ValueError, "alpha must be in"),
        (lambda: on_dask.calibrate(UNKNOWN, np.zeros(40)), ValueError, "labels must be .* blocks as the rows are"),
    ],
)
def test_arguments_are_refused_in_words(call, error, said):
    with dask.config.set(scheduler="synchronous"), pytest.raises(error, match=said):
        call()


ROWS = dd.from_pandas(FRAME[:40], npartitions=2)
ARRAY = da.from_array(matrix_of(FRAME[:40]), chunks=(20, 4))
UNKNOWN = ROWS[COLUMNS].to_dask_array()


def test_blocks_of_other_lengths_are_noticed():
    labels = dd.from_pandas(FRAME["y"][:40], npartitions=1).repartition(divisions=[0, 5, 39])
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="a block of 20 rows has"):
        on_dask.calibrate(UNKNOWN, labels, classes=NAMES)


def test_folds_are_fitted_on_the_cluster(client, tmp_path):
    """CV+ within joblib's dask backend: the bits of one process, other processes fit, and the data goes there once."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(400, 5)), generator.integers(0, 3, 400)
    model = aptset.ConformalClassifier(Counted(str(tmp_path)), calibration=aptset.CVPlus(8), random_state=0)
    here = model.fit(X, y)
    expected, p_values = here.predict_set(X), here.p_values(X)
    assert not list(tmp_path.iterdir())
    with joblib.parallel_config("dask"):
        there = aptset.ConformalClassifier(Counted(str(tmp_path)), calibration=aptset.CVPlus(8), random_state=0)
        there.fit(X, y)
        pickled = (tmp_path / str(os.getpid())).read_text().count("pickled")
        assert pickled == 1, "eight folds share what was sent once"
        assert [a.tolist() for a in there.predict_set(X)] == [a.tolist() for a in expected]
    np.testing.assert_array_equal(there.p_values(X), p_values)


def test_audits_run_on_the_cluster(client, tmp_path):
    """Every split is measured by a worker, and written by the process that asked; the same rows as in one process."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(300, 4)), generator.integers(0, 3, 300)
    settings = {"repetitions": 4, "random_state": 0}
    log = tmp_path / str(os.getpid())
    here = aptset.audit(Counted(str(tmp_path)), X, y, **settings)
    before = log.read_text().count("pickled")  # names of splits tell the model
    with joblib.parallel_config("dask"):
        there = aptset.audit(Counted(str(tmp_path)), X, y, n_jobs=2, folder=tmp_path / "splits", **settings)
    pd.testing.assert_frame_equal(there.to_frame(), here.to_frame(), check_exact=True)
    assert len(list((tmp_path / "splits").glob("*.json"))) >= 4
    assert log.read_text().count("pickled") == 2 * before + 1, "all splits share what was sent once"


def test_a_killed_worker_changes_nothing(client, tmp_path):
    """In both passes the process that reads the fourth of six partitions dies; its work is done again, by others."""
    whole, _ = in_one_process()
    fatal = (0, 2)
    cut = np.array_split(np.arange(len(FRAME)), 6)
    rows = dd.from_map(
        deadly,
        [FRAME.iloc[some] for some in cut],
        [str(tmp_path) if number == 3 else None for number in range(6)],
        fatal=fatal,
        meta=FRAME.iloc[:0],
    )
    found = on_dask.calibrate(rows, "y", prefix="p_", random_state=3, buckets=400)
    pids = {int(path.name.split()[0]): int(path.name.split()[1]) for path in tmp_path.iterdir()}
    assert len(pids) >= 2 + len(fatal), "two passes, and one more attempt for each death"
    for attempt in fatal:
        with pytest.raises(ProcessLookupError):
            os.kill(pids[attempt], 0)
    assert found.threshold() == whole.threshold()
    assert (found.n, found.parts) == (whole.n, whole.parts)


def test_a_worker_killed_while_it_predicts(client, tmp_path):
    whole, expected = in_one_process()
    cut = np.array_split(np.arange(len(NEW)), 4)
    places = [None, str(tmp_path), None, None]
    new = dd.from_map(deadly, [NEW.iloc[some] for some in cut], places, fatal=(0,), meta=NEW.iloc[:0])
    made = on_dask.predict_set(new, whole, prefix="p_").compute()
    assert len(list(tmp_path.iterdir())) >= 2
    assert sets_in(made) == expected
    assert made["id"].tolist() == NEW["id"].tolist()
