"""Rows that go by in batches are judged exactly as all rows at once."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aptset
from aptset.arrow.formats import table_file
from aptset.cli.evaluation_jobs import evaluate_files


def evaluate_file(path, *arguments):
    return evaluate_files([table_file(path)], *arguments)


LABELS = ["a", "b", "c d", "é"]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(LABELS), st.lists(st.sampled_from(LABELS), unique=True), st.sampled_from(["x", "y", None])
    ),
    min_size=1,
    max_size=30,
)


def write(path, rows, group_size):
    truth, sets, groups = zip(*rows, strict=True)
    if path.suffix == ".csv":
        lines = [f'{label},"{"|".join(members)}",{group or ""}' for label, members, group in rows]
        path.write_text("\n".join(["y,set,g", *lines]) + "\n")
    else:
        table = pa.table({"y": truth, "set": pa.array(sets, pa.list_(pa.string())), "g": pa.array(groups, pa.string())})
        pq.write_table(table, path, row_group_size=group_size)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_is_judged_as_its_rows_in_memory(tmp_path_factory, ending):
    folder = tmp_path_factory.mktemp("sets")

    @given(ROWS, st.integers(1, 9), st.sampled_from([None, 0.1, 0.3]))
    def check(rows, group_size, alpha):
        path = folder / f"s.{ending}"
        write(path, rows, group_size)
        truth, sets, groups = zip(*rows, strict=True)
        came = [label for label in LABELS if label in truth or any(label in members for members in sets)]
        made = aptset.PredictionSets.from_labels(sets, came)
        expected = aptset.evaluate(made, np.array(truth, dtype=object), groups=list(groups), alpha=alpha)
        found = evaluate_file(path, "y", alpha, "g")
        assert repr(found) == repr(expected)
        named = [(row[:3], repr(row[3]), row[3].n, row[3].count) for row in expected.rows()]
        assert [(row[:3], repr(row[3]), row[3].n, row[3].count) for row in found.rows()] == named

    check()


TEXTS = {
    "texts": (pa.string(), pa.list_(pa.string())),
    "large": (pa.large_string(), pa.large_list(pa.large_string())),
    "coded": (pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.dictionary(pa.int32(), pa.string()))),
}
PAGES = [{}, {"use_dictionary": False}, {"dictionary_pagesize_limit": 8}, {"store_schema": False}]


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("pages", PAGES, ids=str)
@pytest.mark.parametrize("long_group", [1, 10**9], ids=["by row group", "together"])
def test_how_a_file_keeps_its_texts_decides_nothing(tmp_path, limits, kind, pages, long_group):
    draw = random.Random(5)
    truth = [draw.choice(LABELS) + str(row // 25) for row in range(100)]  # each row group has labels of its own
    members = [draw.sample([*LABELS, None, label], draw.randrange(5)) for label in truth]
    sets = [None if draw.random() < 0.1 else some for some in members]
    groups = [draw.choice(["x", "y", None]) for _ in truth]
    table = pa.table({"y": truth, "set": pa.array(sets, pa.list_(pa.string())), "g": pa.array(groups, pa.string())})
    expected = evaluate_file(written(tmp_path / "plain.arrow", table), "y", None, "g")
    assert 0 < expected.coverage < 1
    of_truth, of_sets = TEXTS[kind]
    same = pa.table({"y": table["y"].cast(of_truth), "set": table["set"].cast(of_sets), "g": table["g"].cast(of_truth)})
    pq.write_table(same, tmp_path / "s.parquet", row_group_size=25, **pages)
    limits(row_group=long_group)
    found = evaluate_file(tmp_path / "s.parquet", "y", None, "g")
    assert [(row[:3], repr(row[3])) for row in found.rows()] == [(row[:3], repr(row[3])) for row in expected.rows()]


def written(path, table):
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    return path


def test_sets_that_are_none(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("y,set\na,a|b\nb,b|c|b\n")
    with pytest.raises(ValueError, match=r"s.csv, row 1, column 'set': labels of a set must be distinct"):
        evaluate_file(path, "y", None)
    path.write_text("y,set,set\na,a,b\n")
    with pytest.raises(ValueError, match="exactly one column 'set'"):
        evaluate_file(path, "y", None)
    pq.write_table(pa.table({"y": ["a"], "set": [1.5]}), tmp_path / "s.parquet")
    with pytest.raises(ValueError, match=r"lists or texts joined by \|; it has double"):
        evaluate_file(tmp_path / "s.parquet", "y", None)


def test_memory_does_not_grow_with_the_rows(tmp_path):
    """What is kept of 40 times the rows is as small as before, to the kilobyte."""
    import tracemalloc

    peaks = []
    for n in (20_000, 800_000):
        path = tmp_path / f"{n}.parquet"
        with pq.ParquetWriter(path, pa.schema([("y", pa.string()), ("set", pa.list_(pa.string()))])) as writer:
            part = pa.table({"y": ["a", "b"] * 10_000, "set": [["a"], ["a", "b"]] * 10_000})
            for _ in range(n // 20_000):
                writer.write_table(part.cast(writer.schema))
        tracemalloc.start()
        assert evaluate_file(path, "y", 0.1).n == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 8 * peaks[0] + 4_000_000, peaks  # batches of 20,000 against 65,536 rows


@pytest.mark.parametrize("n", [4095, 4096])
@pytest.mark.parametrize("is_coded", [False, True])
def test_sets_as_texts_in_long_row_groups(n, is_coded, tmp_path):
    """From 4,096 rows on texts are read as Parquet holds them: each once, and its number for every row."""
    texts = pa.array((["a|b", "b"] * n)[:n])
    table = pa.table({"set": texts.dictionary_encode() if is_coded else texts, "y": ["a"] * n})
    pq.write_table(table, tmp_path / "sets.parquet")
    found = evaluate_file(tmp_path / "sets.parquet", "y", None)
    assert float(found.coverage) == -(-n // 2) / n
    assert "labels below 0.8" in repr(found), "no alpha was given"
