import warnings

import pytest
from click.testing import CliRunner

from aptset.commands.cli import main
from shell import messy


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Run a command in this process, in a folder with a table to train on and new rows."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.chdir(tmp_path)
    messy(300).to_csv("patients.csv", index=False)
    messy(60, seed=1).to_csv("new.csv", index=False)

    def call(*arguments, rc=0, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = CliRunner().invoke(main, [str(argument) for argument in arguments], **options)
        assert done.exit_code == rc, done.output
        return done

    return call
