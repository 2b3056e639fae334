"""Claims, comparisons and tables: verdicts follow from the numbers by the stated rules."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from aptset import Estimate
from aptset.experiments.claims import (
    INFINITY,
    NOTEBOOK,
    RERUN,
    Finding,
    Results,
    as_markdown,
    compare_notebook,
    compare_rerun,
    findings,
    listing,
)
from aptset.experiments.designs import DESIGNS
from aptset.experiments.reproduce import claims_page


def results(values, data="model1", n_train=1000, condition="all"):
    """Make a table of results from {(box, method): values of every metric over repetitions}."""
    rows = []
    for (box, method), numbers in values.items():
        for repetition, value in enumerate(numbers):
            row = {"data": data, "n_train": n_train, "n_test": 5000, "box": box, "method": method}
            row |= {
                "repetition": repetition,
                "condition": condition,
                "family": method,
                "seconds": 1.0,
                "versions": "{}",
            }
            metrics = dict.fromkeys(("coverage", "worst_slice", "size", "size_given_coverage"), value)
            rows.append({**row, **(value if isinstance(value, dict) else metrics)})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.89, 0.91, "holds"), (0.80, 0.87, "fails"), (0.93, 0.95, "fails"), (0.87, 0.90, "open"), (0.86, 0.95, "open")],
)
def test_a_verdict_needs_the_whole_interval(low, high, verdict):
    estimate = Estimate((low + high) / 2, low, high, 10)
    assert Finding("", "", estimate, 0.88, 0.92).verdict == verdict


def test_bounds_in_words():
    estimate = Estimate(0, 0, 0, 2)
    assert Finding("", "", estimate, 0.02, INFINITY).bounds == "at least 0.02"
    assert Finding("", "", estimate, -INFINITY, 1).bounds == "at most 1"
    assert Finding("", "", estimate, 0.88, 0.92).bounds == "0.88 to 0.92"


def test_differences_are_paired_over_shared_repetitions():
    frame = results({("SVC", "SC"): [1.0, 2.0, 3.0], ("SVC", "CV+"): [0.5, 1.0]})
    found = Results(frame, 0.1).difference(("SVC", "SC"), ("SVC", "CV+"), "size")
    np.testing.assert_array_equal(found, [0.5, 1.0])


def test_intervals_are_students():
    values = np.array([0.88, 0.90, 0.91, 0.93])
    (found,) = (f for f in findings(results({("SVC", "SC"): values}), 0.1) if "coverage of SC" in f.quantity)
    half = values.std(ddof=1) / 2 * t.ppf(0.975, 3)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((values.mean() - half, values.mean() + half))


def test_claims_notice_both_worlds():
    good = {"coverage": 0.9, "worst_slice": 0.9, "size": 2.0, "size_given_coverage": 2.0}
    names = ("SC", "CV+", "JK+", "HCC", "CQC")
    bad_slices = {**good, "worst_slice": 0.6, "size": 1.5}
    world = {("Oracle", name): [good if name in names[:3] else bad_slices] * 4 for name in names}
    told = {f.quantity: f.verdict for f in findings(results(world), 0.1)}
    assert told["Oracle: worst slice of SC"] == "holds"
    assert told["Oracle: worst slice of SC minus HCC"] == "holds"
    assert told["Oracle: size of SC minus HCC"] == "holds"
    assert told["Oracle: size of SC minus CQC"] == "fails", "ours are larger in this world"
    world[("Oracle", "SC")] = [{**good, "worst_slice": 0.5}] * 4
    told = {f.quantity: f.verdict for f in findings(results(world), 0.1)}
    assert told["Oracle: worst slice of SC"] == "fails"
    assert told["Oracle: worst slice of SC minus HCC"] == "fails"


def verdicts(values, data, n_train, condition="all"):
    return {f.quantity: f.verdict for f in findings(results(values, data, n_train, condition), 0.1)}


@pytest.mark.parametrize("n_train", [1000, 10_000])
def test_claims_about_model_2(n_train):
    def world(**sizes):
        return verdicts({(box, "SC"): [size] * 3 for box, size in sizes.items()}, "model2", n_train)

    as_told = world(Oracle=1.8, RFC=1.85, SVC=3.1)
    assert as_told["RFC minus Oracle: size of SC"] == as_told["SVC minus Oracle: size of SC"] == "holds"
    turned = world(Oracle=1.8, RFC=3.1, SVC=1.85)
    assert turned["RFC minus Oracle: size of SC"] == turned["SVC minus Oracle: size of SC"] == "fails"


def test_claims_about_mice():
    def world(sc, cv, hcc_slice, cqc):
        row = {"coverage": 0.9, "worst_slice": 0.9, "size": 1.0, "size_given_coverage": 1.0}
        values = {("NNet", "SC"): [{**row, "size": sc}] * 4, ("NNet", "CV+"): [{**row, "size": cv}] * 4}
        values |= {("NNet", "HCC"): [{**row, "worst_slice": hcc_slice}] * 4}
        return verdicts({**values, ("NNet", "CQC"): [{**row, "size": size} for size in cqc]}, "mice", 500)

    wobble = "NNet: distance of size from its median, CQC minus SC"
    as_told = world(2.0, 1.5, 0.7, [1.0, 3.0, 5.0, 7.0])
    assert as_told["NNet: worst slice of SC"] == "holds"
    assert as_told["NNet: size of CV+ minus SC"] == as_told["NNet: worst slice of HCC"] == as_told[wobble] == "holds"
    turned = world(2.0, 2.5, 0.95, [1.0, 1.0, 1.0, 1.0])
    assert turned["NNet: size of CV+ minus SC"] == turned["NNet: worst slice of HCC"] == "fails"
    assert turned[wobble] == "holds", "equal spreads are at least equal"


def test_claims_about_mnist():
    def world(ours, forest):
        values = {("NNet", "SC"): [ours] * 3, ("SVC", "CV+"): [ours] * 3, ("RFC", "HCC"): [forest] * 3}
        return verdicts(values, "mnist", 10_000)

    names = ("NNet: worst slice of SC", "SVC: worst slice of CV+", "RFC: worst slice of HCC")
    assert {world(0.9, 0.8)[name] for name in names} == {"holds"}
    assert {world(0.8, 0.95)[name] for name in names} == {"fails"}
    assert not any("worst slice" in name for name in verdicts({("NNet", "SC"): [0.9] * 3}, "mnist", 500))


def test_the_worst_digit_is_the_one_that_is_judged():
    parts = [
        results({("NNet", "CV+"): [0.95 - 0.01 * digit] * 3}, "mnist", 10_000, f"label={digit}") for digit in range(10)
    ]
    found = [f for f in findings(pd.concat(parts), 0.1) if "worst digit" in f.quantity]
    assert [float(f.estimate) for f in found] == [pytest.approx(0.86)]


def test_the_rerun_is_compared_in_standard_errors():
    row = RERUN[0]
    centre, deviation = row.coverage
    shifts = np.array([-1.0, 1.0] * 10)
    values = centre + 5 * deviation + deviation * shifts / shifts.std(ddof=1)
    (one,) = (c for c in compare_rerun(results({(row.box, row.method): values}), 0.1) if c.metric == "coverage")
    assert one.z == pytest.approx(5 / (1 / 20 + 1 / 10) ** 0.5)
    assert not one.agrees
    (one,) = (
        c for c in compare_rerun(results({(row.box, row.method): values - 5 * deviation}), 0.1) if c[2] == "coverage"
    )
    assert one.agrees


def test_the_notebook_is_compared_by_order():
    same = {
        pair: [dict(zip(("coverage", "worst_slice", "size_given_coverage"), medians, strict=True))] * 2
        for pair, medians in NOTEBOOK.items()
    }
    found = compare_notebook(results(same), 0.1)
    assert len(found) == 9, "four by worst slice and five by size, within a box"
    assert all(row[-1] for row in found)
    turned = {pair: [{name: -value for name, value in rows[0].items()}] * 2 for pair, rows in same.items()}
    assert not any(row[-1] for row in compare_notebook(results(turned), 0.1))


def test_the_worst_digit_is_chosen_without_bias():
    # Every digit covers 0.9 on average; the minimum over digits of the mean would lie far below it.
    generator = np.random.default_rng(0)
    parts = []
    for digit in range(10):
        values = 0.9 + 0.05 * generator.standard_normal(2000)
        parts.append(results({("NNet", "CV+"): values}, "mnist", 10_000, f"label={digit}"))
    (found,) = (f for f in findings(pd.concat(parts), 0.1) if "worst digit" in f.quantity)
    assert abs(float(found.estimate) - 0.9) < 6 * 0.05 / 2000**0.5  # six standard errors: false alarm below 1e-8


def test_tables_mark_what_was_reached():
    worlds = {"SC": [0.899, 0.900, 0.901], "HCC": [0.70, 0.701], "CV+": [0.80, 0.95], "JK+": [0.95]}
    frame = results({("NNet", method): values for method, values in worlds.items()}, "mice", 500)
    lines = listing(DESIGNS["tableS1"], frame, 0.1)
    marks = dict(zip(lines["method"], lines["conditional_coverage"], strict=True))
    assert marks == {"SC": "reached", "CV+": "open", "JK+": "open", "HCC": "missed"}
    text = as_markdown("Table S1", lines, 0.1)
    assert "| 500 | NNet | SC | 0.900 (0.001) | 0.900 (0.001) | ✓ reached |" in text
    assert "| 500 | NNet | JK+ | 0.950 (-) |" in text
    assert "✗ missed" in text


def test_the_page_says_what_was_run_and_what_was_not():
    page = claims_page(results({("SVC", "SC"): [0.9, 0.9]}, "mice", 500), 0.1)
    assert "| mice | 500 | SVC | SC (2) |" in page
    assert page.count("Nothing to compare") == 2
    assert "✓ holds" in page
    once = claims_page(results({("SVC", "SC"): [0.9]}, "mice", 500), 0.1)
    assert "one repetition only: an interval needs two" in once
    assert "authors' code" not in claims_page(results({("SVC", "SC"): [0.9, 0.8]}), 0.2), "their level is 0.1"


RUNS = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.mark.skipif(not RUNS.exists(), reason="long runs are not in an sdist")
def test_the_second_run_repeats_the_draws_of_the_first():
    """As docs/reproduction says: SC and HCC are equal to the last digit wherever both ran."""
    keys = ["data", "n_train", "n_test", "box", "method", "repetition", "alpha", "seed", "condition"]
    first, second = (pd.read_parquet(path / "results.parquet") for path in (RUNS, RUNS / "second"))
    both = first.merge(second, on=keys, suffixes=("", "_again"))
    both = both[both["method"].isin(["SC", "HCC"]) & (both["condition"] == "all")]
    assert len(both) > 200
    assert (both["coverage"] == both["coverage_again"]).all()
    assert (both["size"] == both["size_again"]).all()
    assert "It is no second sample" in (RUNS / "second" / "README.md").read_text(encoding="utf-8")
