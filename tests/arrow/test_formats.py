"""Files as sources of batches: how often a CSV is opened, what its quotes and decimal commas mean, formats to come."""

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

from aptset.arrow import formats
from aptset.arrow.formats import table_file
from aptset.cli.main import main

HEADER = "p_a;p_b;y;note\n"
ROW = "0,25;7,5e-1;b;n\n"


def command(*arguments, rc=0):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == rc, done.output
    return done.output


def calibrate(path):
    return ("calibrate", path, "--label", "y", "--prefix", "p_", "-o", path.parent / "c.aptset")


def test_a_csv_is_opened_once_to_see_how_it_is_written_and_once_to_read(tmp_path, monkeypatch):
    path, opened = tmp_path / "f.csv", []
    path.write_text("p_a,p_b,y\n" + "0.25,0.75,b\n" * 30)
    really = pa.input_stream
    monkeypatch.setattr(pa, "input_stream", lambda *given, **more: opened.append(given) or really(*given, **more))
    command(*calibrate(path))
    assert len(opened) == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_header_may_be_longer_than_what_is_looked_at_first(tmp_path, limits, encoding):
    limits(text_block=16)
    path, names = tmp_path / "f.csv", [*(f"column {k}" for k in range(9)), "two\nlines"]
    header = ",".join(f'"{name}"' for name in names) + "\n"
    for text in (header + ",".join("0123456789") + "\n", header):
        path.write_text(text, encoding=encoding)
        assert table_file(path).names == names
        assert table_file(path).rows == (text != header)


@pytest.mark.parametrize("broken", ['0,5;0,5;a;"n\n', '0,5;0,5;"a;n\n', '0,5;0,5;a;"n"m\n'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_quote_that_does_not_close_swallows_no_rows_whatever_the_separator(tmp_path, broken, encoding):
    path = tmp_path / "f.csv"
    path.write_text(HEADER + ROW * 10 + broken + ROW * 30, encoding=encoding)
    assert "f.csv, row 10: a quote opens a cell there" in command(*calibrate(path), rc=1)


def test_decimal_commas_are_told_column_by_column(tmp_path):
    """A column of points beside one of commas, whole numbers, exponents, blanks, and a text that is nearly a number."""
    path = tmp_path / "f.csv"
    path.write_text("a;b;c;d\n1,5; 2,5e-3 ;1.5;1,5\n2;;2.5;1,5x\n", encoding="utf-16")
    file = table_file(path)
    assert "UTF-16, columns separated by semicolons; numbers have decimal commas" in file.note
    whole = file.table()
    assert whole["a"].to_pylist() == [1.5, 2.0]
    assert whole["b"].to_pylist() == [0.0025, None]
    assert whole["c"].to_pylist() == [1.5, 2.5]
    assert whole["d"].to_pylist() == ["1,5", "1,5x"]
    (typed,) = file.batches(["c", "a"], {"a": pa.float64()})
    assert typed.to_pydict() == {"c": ["1.5", "2.5"], "a": [1.5, 2.0]}
    (as_written,) = file.batches()
    assert as_written["b"].to_pylist() == [" 2,5e-3 ", None]


def test_separators_that_no_reader_takes_are_refused(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(HEADER + ROW)
    for wrong in ("ab", "§", '"', "\n"):
        with pytest.raises(ValueError, match="--sep must be one ASCII character"):
            table_file(path, wrong)


NEW_FORMAT = '''
import pyarrow.json as pa_json
from aptset.arrow.formats import TableFile


class Lines(TableFile):
    """One object of JSON on each line."""

    kind = "lines"
    endings = (".rows",)

    @property
    def schema(self):
        return pa_json.read_json(str(self.path)).schema

    def _count(self):
        return None  # only reading them tells

    def _batches(self, columns, types, na, coded):
        yield from pa_json.read_json(str(self.path)).select(columns).to_batches()
'''


def test_a_new_format_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "lines.py").write_text(NEW_FORMAT)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    formats.formats.cache_clear()
    try:
        frame = pd.DataFrame({"p_a": [0.25] * 30, "p_b": [0.75] * 30, "y": ["b"] * 30})
        frame.to_json(tmp_path / "f.rows", orient="records", lines=True)
        assert "Calibrated on 30 rows" in command(*calibrate(tmp_path / "f.rows"))
        predict = ("predict", tmp_path / "f.rows", "-c", tmp_path / "c.aptset", "--prefix", "p_", "-o")
        command(*predict, tmp_path / "s.parquet")
        sets = pd.read_parquet(tmp_path / "s.parquet")
        assert sets["y"].tolist() == ["b"] * 30
        sets.to_json(tmp_path / "s.rows", orient="records", lines=True)
        files = (tmp_path / "s.parquet", tmp_path / "s.rows")
        in_parquet, in_rows = (command("evaluate", file, "--label", "y") for file in files)
        assert in_parquet == in_rows
        assert "Evaluation of 30 prediction sets" in in_rows
    finally:
        monkeypatch.undo()
        formats.formats.cache_clear()
    with pytest.raises(ValueError, match=r"must end in one of .csv, .parquet, .pq, .arrow, .feather, .ipc, .npz, .npy"):
        table_file(tmp_path / "f.rows")
