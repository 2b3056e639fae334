import warnings

import pytest
from click.testing import CliRunner
from parts_data import NAMES, cut

from aptset.cli.main import main
from shell import at_home, messy, table


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Run a command in this process, in a folder with a table to train on and new rows."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.chdir(tmp_path)
    messy(300).to_csv("patients.csv", index=False)
    messy(60, seed=1).to_csv("new.csv", index=False)

    def call(*arguments, rc=0, **options):
        with warnings.catch_warnings(), at_home(tmp_path):
            warnings.simplefilter("ignore")
            done = CliRunner().invoke(main, [str(argument) for argument in arguments], **options)
        assert done.exit_code == rc, done.output
        return done

    return call


@pytest.fixture
def data(tmp_path):
    """Hold rows to calibrate on and new ones: in one file each, and in a folder of parts of several kinds."""
    for name, n, seed in (("val", 800, 0), ("new", 400, 1)):
        frame = table(n, seed).drop(columns="note")  # a cell of two lines is no matter of parts
        frame.to_parquet(tmp_path / f"{name}.parquet", index=False)
        cut(frame, tmp_path / name, NAMES)
        for tool in ("_SUCCESS", ".part-0.crc", "_metadata", "_temporary/part-9.parquet"):
            path = tmp_path / name / tool
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"no data")
    return tmp_path
