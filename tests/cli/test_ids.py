"""`--id` on the command line: the id decides, wherever the row stands and whatever the file."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import aptset
from shell import failure, run, table


def sets_of(path):
    found = pq.read_table(path).to_pandas()
    return {row.id: (row.size, tuple(row["set"])) for _, row in found.iterrows()}


def test_predict_in_any_order_and_kind_of_file(tmp_path):
    val, new = (table(n, seed).assign(id=np.arange(n) + 10**17) for n, seed in ((400, 0), (300, 1)))
    new.iloc[150:, :3] = new.iloc[0, :3].to_numpy()  # copies: only their ids tell them apart
    val.to_parquet(tmp_path / "val.parquet")
    new.to_parquet(tmp_path / "new.parquet")
    new.iloc[::-1].to_csv(tmp_path / "new.csv", index=False)
    common = ("--label", "y", "--id", "id", "--prefix", "p_")
    run("calibrate", tmp_path / "val.parquet", *common, "-o", tmp_path / "cal.aptset")
    for name in ("new.parquet", "new.csv"):
        out = tmp_path / f"{name}.sets.parquet"
        run("predict", tmp_path / name, "-c", tmp_path / "cal.aptset", *common, "-o", out)
    by_parquet, by_csv = (sets_of(tmp_path / f"{name}.sets.parquet") for name in ("new.parquet", "new.csv"))
    assert by_parquet == {int(row): found for row, found in by_csv.items()}
    calibration = aptset.load(tmp_path / "cal.aptset")
    assert calibration.chance.source == "ids"
    sets = calibration.predict_set(new.iloc[:, :3].to_numpy(), 0.1, ids=new["id"])
    assert [found for _, found in by_parquet.values()] == [tuple(row) for row in sets]
    assert len({found for _, found in list(by_parquet.values())[150:]}) > 1, "copies have chances of their own"


def test_run_takes_ids_and_leaves_them_out_of_the_features(tmp_path):
    generator = np.random.default_rng(0)
    y = generator.integers(3, size=240)
    frame = pd.DataFrame({"a": generator.normal(size=240) + y, "customer": np.arange(240), "y": y})
    found = []
    for name, ids in (("one", frame["customer"]), ("other", frame["customer"] * 1000)):
        frame.assign(customer=ids).to_csv(tmp_path / f"{name}.csv", index=False)
        path = tmp_path / f"{name}.csv"
        run("run", path, "--target", "y", "--id", "customer", "--model", "bayes", "--out", tmp_path / name)
        found.append(pq.read_table(tmp_path / name / "sets.parquet").to_pydict())
    assert found[0]["row"] == found[1]["row"]
    assert found[0]["set"] != found[1]["set"], "other ids, other chances"
    assert np.mean([len(row) for row in found[0]["set"]]) < 3


def test_ids_of_a_file_are_judged_whole_and_found_in_archives(tmp_path):
    frame = table(8200, 0)
    frame["id"] = np.arange(8200) % 4000
    frame.to_parquet(tmp_path / "few.parquet")
    options = ("--label", "y", "--id", "id", "--prefix", "p_", "-o", tmp_path / "c.aptset")
    texts = {failure("calibrate", tmp_path / "few.parquet", *options, "--batch-rows", n) for n in (4096, 65536)}
    assert len(texts) == 1
    assert "ids must tell rows apart; got 4000 different ids for 8200 rows" in texts.pop()
    matrix, labels = frame.iloc[:400, :3].to_numpy(), np.arange(400) % 3
    np.savez(tmp_path / "m.npz", probabilities=matrix, y=labels, rid=np.arange(400))
    run("calibrate", tmp_path / "m.npz", "--label", "y", "--id", "rid", "-o", tmp_path / "m.aptset")
    expected = aptset.calibrate(matrix, labels, ids=np.arange(400), random_state=0)
    np.testing.assert_array_equal(aptset.load(tmp_path / "m.aptset").scores, expected.scores)
    assert "an array 'no'" in failure("calibrate", tmp_path / "m.npz", "--label", "y", "--id", "no", "-o", "x.aptset")


def test_fresh_u_takes_the_place_of_ids(tmp_path):
    generator = np.random.default_rng(0)
    y = generator.integers(3, size=400)
    frame = pd.DataFrame({"a": generator.normal(size=400) + y, "customer": np.arange(400), "y": y})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    common = ("--target", "y", "--id", "customer", "--model", "bayes", "--out", tmp_path / "run")
    run("run", tmp_path / "rows.csv", *common)
    ask = ("predict", tmp_path / "rows.csv", "-c", tmp_path / "run")
    for name, more in (("1", ()), ("2", ()), ("3", ("--u", "fresh")), ("4", ("--u", "fresh"))):
        run(*ask, *more, "-o", tmp_path / f"{name}.csv")
    keyed, again, fresh, other = (pd.read_csv(tmp_path / f"{name}.csv")["set"].tolist() for name in "1234")
    assert keyed == again
    assert len({tuple(map(str, sets)) for sets in (keyed, fresh, other)}) == 3
    both = run(*ask, "--id", "customer", "--u", "fresh", "-o", tmp_path / "5.csv", rc=2).stderr
    assert "--u fresh and --id cannot be given together" in both
