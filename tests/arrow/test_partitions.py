"""One process, any partitions, any order of merging: the same thresholds and the same sets, bit for bit."""

import itertools
import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aptset
from aptset.arrow import STATE_SCHEMA, merge_states, set_maker, start_search
from aptset.arrow.sources import pieces
from batch_data import NAMES, lists_of, rows, sets_in, table

P, Y = rows(9000, seed=5)
SENT = table(P, Y, g=pa.array([f"g{k}" for k in np.random.default_rng(6).integers(0, 3, 9000)]))
COPIES, OF_COPIES = rows(9000, seed=7, digits=1)
WITH_COPIES = table(COPIES, OF_COPIES)


def run(search, partitions, merge=list, numbers=None):
    """Distribute a search by hand: what goes to a worker and comes back is pickled."""
    while not search.is_done:
        sent = pickle.dumps(search)
        states = [
            pickle.loads(pickle.dumps(batch))
            for number, part in enumerate(partitions)
            for batch in pickle.loads(sent)(part, number if numbers is None else numbers[number])
        ]
        assert all(state.schema == STATE_SCHEMA and state.num_rows == 1 for state in states)
        search = search.advance(merge(states), n_partitions=len(partitions))
    return search.calibration()


def cut(sent, edges, chunk=None):
    edges = [0, *sorted(edges), len(sent)]
    pairs = itertools.pairwise(edges)
    return [sent.slice(start, stop - start).to_batches(max_chunksize=chunk) for start, stop in pairs]


@settings(max_examples=25)
@given(
    edges=st.lists(st.integers(0, 9000), max_size=6),
    chunk=st.sampled_from([97, 4096, None]),
    setting=st.sampled_from(
        [
            {},
            {"groups": "label"},
            {"groups": "g"},
            {"ids": "row"},
            {"resolution": 2**-20},
            {"groups": "g", "resolution": 2**-9},
        ]
    ),
    chance=st.randoms(use_true_random=False),
)
def test_partitions_do_not_matter_for_distinct_rows(edges, chunk, setting, chance):
    """Empty and skewed partitions, any order, any tree of merges."""
    common = {"labels": "y", "prefix": "p_", "alpha": [0.1, 0.03], "random_state": 3, "buckets": 500, **setting}
    whole = aptset.calibrate_batches(SENT, **common)

    def tree(states):
        chance.shuffle(states)
        while len(states) > 2:
            states = [*merge_states(states[:2]), *states[2:]]
        return states

    partitions = cut(SENT, edges, chunk)
    chance.shuffle(partitions)
    found = run(start_search(SENT.schema, **common), partitions, tree)
    assert [found.threshold(a) for a in (0.1, 0.03)] == [whole.threshold(a) for a in (0.1, 0.03)]
    assert (found.n, found.parts) == (whole.n, whole.parts)
    by = {"groups": "g" if setting.get("groups") == "g" else None, "ids": setting.get("ids")}
    expected = aptset.predict_batches(SENT, whole, alpha=0.1, prefix="p_", **by).read_all()
    make = pickle.loads(pickle.dumps(set_maker(found, SENT.schema, alpha=0.1, prefix="p_", **by)))
    made = [batch for number, part in enumerate(partitions) for batch in make(part, number)]
    assert pa.Table.from_batches(made, make.schema).sort_by("row").equals(expected)


def test_in_memory_and_in_batches_agree_on_copies(path):
    """Whatever the batches are, rows of one stream stand in the same blocks as in one call."""
    whole = aptset.calibrate(COPIES, OF_COPIES, random_state=0)
    assert whole.chance.copies > 0.3
    expected = lists_of(whole.predict_set(COPIES))
    names = [[NAMES[k] for k in labels] for labels in expected]
    for chunk in (1, 97, 5000, None) if path == "compiled" else (97,):
        batches = WITH_COPIES.slice(0, 5000 if chunk == 1 else None).to_batches(max_chunksize=chunk)
        if chunk == 1:
            batches += WITH_COPIES.slice(5000).to_batches()
        found = aptset.calibrate_batches(batches, labels="y", prefix="p_", random_state=0)
        assert found.threshold() == whole.threshold()
        assert found.chance == whole.chance
        assert sets_in(aptset.predict_batches(batches, found, prefix="p_").read_all()) == names


def test_copies_in_other_partitions_have_a_chance_of_their_own(path):
    """The same rows as partitions 0 and 5 are other draws, but for the first copies; with ids they are the same."""
    rows_of_one = table(np.full((50, 4), 0.25), np.zeros(50, dtype=int))
    search = start_search(rows_of_one.schema, labels="y", prefix="p_", random_state=0)
    one, other, again = (search.state_of(rows_of_one, number) for number in (0, 5, 5))
    assert other.fingerprint == again.fingerprint != one.fingerprint
    assert set(one.counts.buckets.tolist()) & set(other.counts.buckets.tolist()), "first copies share theirs"
    both = search.advance([one, other]).calibration()
    assert both.chance.copies == 98 / 100
    by_id = start_search(rows_of_one.schema, labels="y", prefix="p_", ids="row", random_state=0)
    assert by_id.state_of(rows_of_one, 0).fingerprint == by_id.state_of(rows_of_one, 5).fingerprint


def test_ids_decide_alone():
    """Copies with ids get the same sets in any partitioning, and those of calibrate with the same ids."""
    names = [f"id {k}" for k in range(9000)]
    sent = WITH_COPIES.append_column("id", pa.array(names))
    whole = aptset.calibrate(COPIES, OF_COPIES, ids=names, random_state=0)
    search = start_search(sent.schema, labels="y", prefix="p_", ids="id", random_state=0)
    found = run(search, cut(sent, [100, 100, 7000], 333))
    assert found.threshold() == whole.threshold()
    make = set_maker(found, sent.schema, prefix="p_", ids="id")
    made = [labels for part in cut(sent, [4000], 1000) for batch in make(part) for labels in batch["set"].to_pylist()]
    assert made == [[NAMES[k] for k in labels] for labels in lists_of(whole.predict_set(COPIES, ids=names))]


def test_other_rows_in_a_later_pass_are_noticed():
    search = start_search(SENT.schema, labels="y", prefix="p_", random_state=0, buckets=10)
    second = search.advance(search(SENT))
    for sent, what in (
        (SENT.slice(1), "this one has 8999"),
        (SENT.slice(0, 0), "has 0"),
        (swapped(), "9000, others|rows"),
    ):
        with pytest.raises(ValueError, match=f"same rows in every pass; the first had 9000 rows.*{what}"):
            second.advance(second(sent))
    with pytest.raises(ValueError, match="states must come from this pass"):
        second.advance(search(SENT))
    with pytest.raises(ValueError, match="states must come from this pass"):
        list(merge_states([*search(SENT), *second(SENT)]))
    with pytest.raises(ValueError, match="after 1 passes some are not"):
        second.calibration()
    both = [*search(SENT, 0), *search(SENT, 2)]
    assert search.advance(both).first.partitions.tolist() == [0, 2]
    with pytest.raises(ValueError, match="every partition once; partition 2 came twice"):
        search.advance([*both, *search(SENT, 2)])
    with pytest.raises(ValueError, match=r"every one of 3 partitions; missing \[1\], unknown \[\]"):
        search.advance(both, n_partitions=3)
    with pytest.raises(ValueError, match="partition must be a whole number from 0"):
        list(search(SENT, -1))
    with pytest.raises(ValueError, match="states must hold the state of every partition; got none"):
        search.advance([])
    assert list(merge_states([])) == []


def swapped():
    p = P.copy()
    p[0] = p[0, ::-1]
    return table(p, Y, g=SENT["g"])


@pytest.mark.parametrize("groups", [None, "label", "g"])
def test_long_partitions_are_counted_bit_by_bit(groups, limits):
    """Keys wait until there are many; how many changes nothing."""
    search = start_search(SENT.schema, labels="y", prefix="p_", groups=groups, random_state=0, buckets=100)
    at_once = search.state_of(SENT.to_batches(max_chunksize=1000)).as_bytes()
    limits(waiting_keys=1)
    assert search.state_of(SENT.to_batches(max_chunksize=1000)).as_bytes() == at_once


def test_a_state_is_small_whatever_n_is():
    """At most 2^18 buckets, compressed; the second pass has what one bucket held."""
    search = start_search(SENT.schema, labels="y", prefix="p_", random_state=0, buckets=2**10)
    first = next(iter(search(SENT)))
    state = search.state_of(SENT)
    assert 2**9 < len(state.counts.buckets) <= 2**10
    assert first.nbytes < 16 * 2**10
    second = search.advance([first])
    assert len(second.state_of(SENT).counts.buckets) < 200
    assert len(pickle.dumps(second)) < 20_000


def test_empty_partitions_have_a_state():
    search = start_search(SENT.schema, labels="y", prefix="p_", random_state=0)
    parts = ([], [SENT.schema.empty_table()], SENT.slice(0, 0))
    nothing = [batch for number, part in enumerate(parts) for batch in search(part, number)]
    assert len(nothing) == 3
    assert search.advance([*nothing, *search(SENT)]).calibration().n == 9000
    with pytest.raises(ValueError, match="at least one row; got none"):
        search.advance(nothing)
    calibration = search.advance(search(SENT)).calibration()
    assert list(set_maker(calibration, SENT.schema, prefix="p_")([], 3)) == []


@pytest.mark.parametrize(("n_classes", "most"), [(2, 65_536), (64, 65_536), (300, 12_288), (1000, 4096), (10**6, 4096)])
def test_pieces_are_whole_blocks_of_bounded_size(n_classes, most):
    """Whatever the batches: 4,096 rows or more while they hold at most 4 million numbers, and all rows in order."""
    sent = pa.table({"row": np.arange(150_000)})
    for chunks in ([150_000], [1, 4095, 4096, 1, 0, 100_000, 41_807], [10_000] * 15):
        edges = np.cumsum([0, *chunks])
        batches = [sent.slice(start, n).to_batches() for start, n in zip(edges, chunks, strict=False)]
        found = list(pieces((batch for some in batches for batch in some), n_classes, by_blocks=True))
        assert all(start % 4096 == 0 and piece["row"][0].as_py() == start for start, piece in found)
        assert all(piece.num_rows % 4096 == 0 for _, piece in found[:-1])
        assert max(piece.num_rows for _, piece in found) <= most
        assert pa.Table.from_batches([piece for _, piece in found]).equals(sent)


@pytest.mark.parametrize(
    "groups",
    [pa.array(np.arange(9000) % 3, pa.timestamp("ns")), pa.array(np.arange(9000, dtype=np.uint64) % 3 + 2**63)],
    ids=["nanoseconds", "beyond int64"],
)
def test_groups_that_would_become_one_on_the_way_are_refused(groups):
    search = start_search(SENT.schema, labels="y", prefix="p_", groups="g", random_state=0)
    with pytest.raises(TypeError, match="Cast the column to texts"):
        list(search(table(P, Y, g=groups), 0))
    in_one_process = aptset.calibrate_batches(table(P, Y, g=groups), labels="y", prefix="p_", groups="g")
    assert len(in_one_process.threshold()) == 3


def test_small_partitions_of_copies_warn():
    """The first of equal rows has one u in every partition: many small ones are many small calls."""
    rows_of_one = table(np.full((50, 4), 0.25), np.zeros(50, dtype=int))
    for number in (None, 0, 5):
        calibration = aptset.calibrate_batches(rows_of_one, labels="y", prefix="p_", random_state=0)
        made = set_maker(calibration, rows_of_one.schema, prefix="p_")
        with pytest.warns(UserWarning, match="copies of others, and 50 rows came without ids"):
            list(made(rows_of_one, number))
    calibration = aptset.calibrate_batches(rows_of_one, labels="y", prefix="p_", random_state=0)
    for chance in ({"ids": "row"}, {"u": "fresh"}):
        made = set_maker(calibration, rows_of_one.schema, prefix="p_", **chance)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(made(rows_of_one, 5))
