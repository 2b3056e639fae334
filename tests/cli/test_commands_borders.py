"""Each command on real files: the borders."""

import json
import os
import tempfile

import numpy as np
import pandas as pd
import pytest

import aptset
from aptset.cli import evaluation_jobs
from shell import failure, run, write


def test_outputs_that_are_no_plain_files(folder):
    """A link is followed, a pipe or a device is left alone."""
    (folder / "real.aptset").write_text("old")
    (folder / "link.aptset").symlink_to(folder / "real.aptset")
    os.mkfifo(folder / "pipe")
    common = ["calibrate", folder / "val.csv", "--label", "y", "--prefix", "p_", "-o"]
    run(*common, folder / "link.aptset")
    assert (folder / "link.aptset").is_symlink()
    assert aptset.load(folder / "real.aptset").n == 800
    assert "a pipe or a device" in failure(*common, folder / "pipe")
    assert (folder / "pipe").is_fifo()
    umask = os.umask(0)
    os.umask(umask)
    run(*common, folder / "new.aptset")
    assert (folder / "new.aptset").stat().st_mode & 0o777 == 0o666 & ~umask


def test_texts_stay_texts(folder):
    """Labels like true, 01 and NA are texts in a CSV; a group is the same in parquet and CSV."""
    generator = np.random.default_rng(0)
    names = ["true", "01", "NA"]
    p = generator.dirichlet(np.ones(3), size=300)
    frame = pd.DataFrame(p, columns=[f"p_{name}" for name in names])
    frame["y"] = np.array(names)[p.argmax(axis=1)]
    frame["region"] = generator.integers(2, size=300)
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    run("calibrate", folder / "t.csv", "--label", "y", "-o", folder / "t.aptset", "--prefix", "p_")
    for out in ("t_sets.csv", "t_sets.parquet"):
        run(
            "predict", folder / "t.csv", "-c", folder / "t.aptset", "-o", folder / out, "--prefix", "p_", "--alpha", 0.5
        )
        judged = json.loads(run("evaluate", folder / out, "--label", "y", "--json").stdout)
        assert judged["estimates"][0]["value"] == pytest.approx(0.5, abs=0.02)
    by_region = ["--prefix", "p_", "--groups", "region"]
    run("calibrate", folder / "t.parquet", "--label", "y", "-o", folder / "r.aptset", *by_region)
    done = run("predict", folder / "t.csv", "-c", folder / "r.aptset", "-o", folder / "r.parquet", *by_region)
    assert "never seen" not in done.stderr
    numbers = frame.drop(columns="y").assign(label=p.argmax(axis=1).astype(float))
    numbers.columns = ["0", "1", "2", "region", "label"]
    numbers.to_parquet(folder / "n.parquet")
    run("calibrate", folder / "n.parquet", "--label", "label", "--groups", "region", "-o", folder / "n.aptset")


def test_what_cannot_be_written_is_refused(folder):
    run("calibrate", folder / "val.parquet", "--label", "y", "-o", folder / "c.aptset", "--prefix", "p_")
    common = ["-c", folder / "c.aptset", "--prefix", "p_", "-o"]
    for ending in ("s.csv.gz", "s.arrow", "s"):
        assert "must end in .parquet or .csv" in failure("predict", folder / "new.csv", *common, folder / ending)
    pd.read_parquet(folder / "new.parquet").assign(**{"size": 1, "set 0.1": 2}).to_parquet(folder / "sized.parquet")
    assert "it has ['set 0.1']" in failure("predict", folder / "sized.parquet", *common, folder / "s.parquet")
    barred = write(folder, "p_a|b,p_a,y\n" + "0.5,0.5,a\n" * 20)
    run("calibrate", barred, "--label", "y", "-o", folder / "b.aptset", "--prefix", "p_")
    out = ["-c", folder / "b.aptset", "--prefix", "p_", "-o", folder / "b.csv"]
    assert "in which | stands between labels" in failure("predict", barred, *out)
    assert "must have a column 'nope'" in failure(
        "predict", folder / "new.csv", *common, folder / "s.csv", "--groups", "nope"
    )
    doubled = write(folder, "p_a,p_b,p_b,y\n0.5,0.25,0.25,a\n")
    assert "distinct column names" in failure(
        "calibrate", doubled, "--label", "y", "-o", folder / "x", "--prefix", "p_"
    )
    gaps = write(folder, "p_a,p_b,y\n0.5,0.5,a\n0.5,0.5,\n")
    run(
        "calibrate",
        write(folder, "p_a,p_b,y\n" + "0.5,0.5,a\n" * 20),
        "--label",
        "y",
        "-o",
        folder / "g.aptset",
        "--prefix",
        "p_",
    )
    gaps.write_text("p_a,p_b,y\n0.5,0.5,a\n0.5,0.5,\n")
    run("predict", gaps, "-c", folder / "g.aptset", "-o", folder / "g.csv", "--prefix", "p_")
    assert "row 1, column 'y': the label is missing" in failure("evaluate", folder / "g.csv", "--label", "y")


def test_logits_in_any_layout_and_batch(folder):
    logits = np.asfortranarray(np.random.default_rng(0).normal(size=(300, 20)) * 3)
    np.save(folder / "f.npy", logits)
    np.save(folder / "f_y.npy", logits.argmax(axis=1))
    hashes = set()
    for rows in (1, 7, 65536):
        options = ["--label", folder / "f_y.npy", "--logits", "--batch-rows", rows, "-o", folder / "f.aptset"]
        run("calibrate", folder / "f.npy", *options)
        hashes.add(json.loads(run("inspect", folder / "f.aptset", "--json").stdout)["scores_hash"])
    assert len(hashes) == 1


def test_standard_input_of_any_kind_leaves_nothing_behind(folder, monkeypatch):
    """What goes away when a process ends is asked to go here; that it then does is tested with signals."""
    place, at_the_end = folder / "tmp", []
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr("atexit.register", lambda *call, **options: at_the_end.append((call, options)))
    common = ["calibrate", "-", "--label", "y", "--prefix", "p_", "-o", folder / "c.aptset"]
    hashes = set()
    for name in ("val.parquet", "val.csv", "val.csv.gz", "val.arrow"):
        run(*common, input=(folder / name).read_bytes())
        hashes.add(json.loads(run("inspect", folder / "c.aptset", "--json").stdout)["scores_hash"])
    assert len(hashes) == 1
    assert len(list(place.iterdir())) == 4
    for (leave, *arguments), options in at_the_end:
        leave(*arguments, **options)
    assert not list(place.iterdir())


def test_models_of_the_users_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\ninstance = GaussianNB()\ndef make():\n    return GaussianNB()\n"
    )
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": generator.normal(size=90), "took": pd.to_timedelta(generator.integers(99, size=90), unit="s")}
    )
    frame["maybe"] = pd.array(generator.choice([True, False, None], size=90), dtype="boolean")
    frame["set"] = np.where(frame["x"] > 0, 1, 2)
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("mine:instance", "mine:make", "sklearn.naive_bayes:GaussianNB"):
        run("run", "t.parquet", "--target", "set", "--model", name, "--out", "o", cwd=tmp_path)
    assert run("run", "t.parquet", "--target", "set", "--out", "o", "--quiet", cwd=tmp_path).stdout == ""
    assert set(pd.read_parquet(tmp_path / "o" / "sets.parquet").columns) == {"row", "label", "size", "set"}


def test_the_first_row_whose_set_holds_a_label_twice_is_named(limits, tmp_path):
    """Whether labels are marked or sorted."""
    generator = np.random.default_rng(7)
    for n_names, marks in ((3, 1), (3, 2**24), (9, 1), (9, 60 * 9)):
        limits(marks=marks)
        sets = [generator.permutation(n_names)[: generator.integers(n_names + 1)] for _ in range(60)]
        for wrong in ((), (59,), (17, 40)):
            for number in wrong:
                sets[number] = np.append(sets[number], generator.integers(n_names)).repeat(2)
            row, members = np.repeat(np.arange(60), [len(one) for one in sets]), np.concatenate(sets).astype(np.intp)
            if not wrong:
                evaluation_jobs.check_distinct_members(tmp_path, 100, row, members, n_names)
                continue
            with pytest.raises(
                ValueError, match=f"row {100 + wrong[0]}, column 'set': labels of a set must be distinct"
            ):
                evaluation_jobs.check_distinct_members(tmp_path, 100, row, members, n_names)
    evaluation_jobs.check_distinct_members(tmp_path, 0, row[:0], members[:0], 1)
