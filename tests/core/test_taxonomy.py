"""Trees of labels: how they are read, what is refused, and covers of sets against every cover there is."""

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aptset
from aptset import LabelBands, PredictionSets, Taxonomy

ANIMALS = {"finch": "bird", "owl": "bird", "cat": "mammal", "dog": "mammal", "bird": "animal", "mammal": "animal"}
ANIMALS |= {"oak": "plant"}


def below(parents, node):
    """Return the labels below a node, by the definition."""
    children = [child for child, parent in parents.items() if parent == node]
    return {node} if not children else set().union(*(below(parents, child) for child in children))


def preorder(parents, node):
    return [node, *(one for child, parent in parents.items() if parent == node for one in preorder(parents, child))]


def covers(parents, root):
    """Yield every set of nodes of which none is above another."""
    nodes = preorder(parents, root)
    for count in range(len(nodes) + 1):
        for chosen in itertools.combinations(nodes, count):
            leaves = [below(parents, node) for node in chosen]
            if sum(map(len, leaves)) == len(set().union(*leaves)):
                yield chosen, set().union(*leaves)


def best_cover(parents, root, members, at_most):
    """Return the cover of the fewest labels; then of the fewest nodes; then of more nodes in the earlier branches."""
    nodes = preorder(parents, root)

    def key(cover):
        chosen, leaves = cover
        return len(leaves), len(chosen), [-len(set(preorder(parents, node)) & set(chosen)) for node in nodes]

    every = (one for one in covers(parents, root) if members <= one[1] and len(one[0]) <= at_most)
    return min(every, key=key)


@st.composite
def trees(draw):
    """A tree with its root "n0", some chains of single children among them, in any order of its names."""
    n_nodes = draw(st.integers(2, 8))
    parents = {f"n{node}": f"n{draw(st.integers(0, node - 1))}" for node in range(1, n_nodes)}
    return {child: parents[child] for child in draw(st.permutations(list(parents)))}


@settings(max_examples=50, deadline=None)
@given(trees(), st.data())
def test_rolled_up_sets_are_the_best_of_all_covers(parents, data):
    labels = sorted(node for node in parents if node not in parents.values())
    rows = data.draw(st.lists(st.sets(st.sampled_from(labels)), min_size=1, max_size=4))
    sets, taxonomy = PredictionSets.from_labels([sorted(row) for row in rows], labels), Taxonomy(parents)
    for at_most in (1, 2, 3, None):
        rolled = sets.roll_up(taxonomy, at_most)
        for row, members in enumerate(rows):
            nodes, leaves = best_cover(parents, "n0", members, 99 if at_most is None else at_most)
            assert tuple(rolled[row]) == nodes
            assert set(rolled.leaves[row]) == leaves
            assert rolled.leaves[row][: len(members)].tolist() == sets[row].tolist()
            assert rolled.sizes[row] == len(leaves)


def test_coverage_can_only_grow_and_more_nodes_never_hold_more_labels():
    generator = np.random.default_rng(0)
    parents = {label: f"group {label % 13}" for label in range(90)} | {f"group {k}": f"half {k % 2}" for k in range(13)}
    mask, truth = generator.random((400, 90)) < generator.random((400, 1)) * 0.2, generator.integers(90, size=400)
    sets, before = PredictionSets.of(mask), None
    for at_most in (1, 2, 3, 5, 8, None):
        rolled = sets.roll_up(Taxonomy(parents), at_most)
        assert (rolled.covers(truth) >= sets.covers(truth)).all()
        assert (rolled.leaves.mask >= mask).all()
        assert (rolled.leaves.sizes == rolled.sizes).all()
        assert at_most is None or (rolled.nodes.sizes <= at_most).all()
        assert before is None or (rolled.sizes <= before).all()
        before = rolled.sizes
    assert (rolled.leaves.mask == mask).all()


def test_a_row_gets_its_nodes_whatever_the_others_are(limits):
    generator = np.random.default_rng(1)
    taxonomy = Taxonomy({label: f"group {label // 7}" for label in range(70)})
    sets = PredictionSets.of(generator.random((120, 70)) < 0.1)
    whole = sets.roll_up(taxonomy, 3)
    alone = [sets[[row]].roll_up(taxonomy, 3)[0].tolist() for row in range(120)]
    limits(rolled_up_cells=200)
    blocks = sets.roll_up(taxonomy, 3)
    assert [row.tolist() for row in whole] == alone == [row.tolist() for row in blocks]
    assert blocks.leaves == whole.leaves


def test_nodes_are_no_labels_when_they_are_judged():
    sets = PredictionSets.of([["owl", "finch"], []], ["cat", "dog", "finch", "oak", "owl"])
    rolled = sets.roll_up(Taxonomy(ANIMALS))
    assert [row.tolist() for row in rolled] == [["bird"], []]
    assert repr(rolled).splitlines() == ["RolledUp: 2 rows, 1 labels on average", "  0  {bird}", "  1  {}"]
    assert aptset.coverage(rolled, ["finch", "cat"]) == 0.5
    assert aptset.evaluate(rolled, ["finch", "cat"]).mean_size == 1
    assert rolled.to_frame().to_dict("list") == {"size": [2, 0], "nodes": [["bird"], []]}
    assert rolled.to_frame("polars")["nodes"].to_list() == [["bird"], []]
    assert len(PredictionSets.of(np.ones((0, 5), dtype=bool), sets.classes).roll_up(Taxonomy(ANIMALS), 2)) == 0


def test_the_root_is_above_everything_and_labels_that_never_come_do_not_count():
    sets = PredictionSets.of([["cat", "oak"], ["cat", "dog"]], ["cat", "dog", "oak"])
    rolled = sets.roll_up(Taxonomy(ANIMALS), 1)
    assert [row.tolist() for row in rolled] == [["all labels"], ["mammal"]]
    assert rolled.sizes.tolist() == [3, 2]
    assert Taxonomy(ANIMALS, root="life").root == "life"
    assert Taxonomy({**ANIMALS, "animal": "life", "plant": "life"}).root == "life"


def test_one_tree_is_read_from_a_mapping_a_table_or_paths():
    expected = Taxonomy(ANIMALS)
    columns = {"label": list(ANIMALS), "parent": list(ANIMALS.values())}
    for table in (columns, pd.DataFrame(columns), pl.DataFrame(columns), pl.DataFrame(columns).to_arrow()):
        assert Taxonomy.from_table(table) == expected
    twice = pd.concat([pd.DataFrame(columns), pd.DataFrame({"label": ["finch", "plant"], "parent": ["bird", None]})])
    assert Taxonomy.from_table(twice) == expected
    paths = ["animal/bird/finch", "animal/bird/owl", "animal/mammal/cat", "animal/mammal/dog", "plant/oak"]
    for given_paths in (paths, pd.Series([*paths, paths[0]]), [tuple(path.split("/")) for path in paths]):
        assert Taxonomy.from_paths(given_paths) == expected
    assert hash(Taxonomy.from_paths(paths)) == hash(expected)
    whole = Taxonomy.from_paths([path.replace("/", " > ") for path in paths], " > ", labels="whole")
    assert whole.labels[0] == "animal > bird > finch"
    assert whole.nodes(2) == ["animal > bird", "animal > mammal", "plant > oak"]
    assert pickle.loads(pickle.dumps(expected)) == expected
    assert expected != Taxonomy({"finch": "bird", "owl": "bird"})


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (lambda: Taxonomy({0: 4, 1: 1}), ValueError, r"1 -> 1 goes round in a circle.*'group 1', not 1"),
        (lambda: Taxonomy({"a": "b", "b": "c", "c": "b", "x": "y"}), ValueError, r"'b' -> 'c' -> 'b' goes round"),
        (lambda: Taxonomy({}), ValueError, "parents must be .*; it is empty"),
        (lambda: Taxonomy([("a", "b")]), TypeError, "parents must be a dictionary"),
        (lambda: Taxonomy(pd.DataFrame({"a": ["x"]})), TypeError, "Use from_table"),
        (lambda: Taxonomy({"a": ["b"]}), TypeError, r"plain values; got \['b'\]"),
        (lambda: Taxonomy({("a", "b"): "c"}), TypeError, r"plain values; got \('a', 'b'\)"),
        (lambda: Taxonomy({None: "a"}), ValueError, "missing label"),
        (lambda: Taxonomy({float("nan"): "a"}), ValueError, "missing label"),
        (lambda: Taxonomy({"a": "x", "b": "y"}, root="x"), ValueError, "root must be a name of its own; 'x'"),
        (lambda: Taxonomy.from_table({"a": ["x", "x"], "b": ["y", "z"]}), ValueError, "'x' has 'y' and 'z'"),
        (lambda: Taxonomy.from_table({"a": ["x"]}), ValueError, r"two columns.*got \['a'\]"),
        (lambda: Taxonomy.from_table({"finch": "bird", "owl": "bird"}), TypeError, "Pass it to Taxonomy itself"),
        (lambda: Taxonomy.from_table({"a": ["x"], "b": []}), ValueError, "1 labels, 0 parents"),
        (lambda: Taxonomy.from_table([1]), TypeError, "table must be a data frame"),
        (lambda: Taxonomy.from_paths("a/b"), TypeError, "paths must be a list"),
        (lambda: Taxonomy.from_paths(["a/b", "/c"]), ValueError, "name at every step; got '/c'"),
        (lambda: Taxonomy.from_paths(["a/b", None]), TypeError, "got None in row 1"),
        (lambda: Taxonomy.from_paths([]), ValueError, "it is empty"),
        (lambda: Taxonomy.from_paths(["a/c", "b/c"]), ValueError, "'c' has 'a' and 'b'. Pass labels='whole'"),
        (lambda: Taxonomy.from_paths(["a/b"], separator=""), ValueError, "separator must be a text"),
        (lambda: Taxonomy.from_paths(["a/b"], labels="first"), ValueError, "labels must be one of"),
        (lambda: Taxonomy(ANIMALS).nodes(0), ValueError, "depth must be a whole number, at least 1"),
        (lambda: LabelBands.from_taxonomy(ANIMALS), TypeError, "taxonomy must be an aptset.Taxonomy"),
    ],
)
def test_what_is_no_tree_is_refused(made, error, words):
    with pytest.raises(error, match=words):
        made()


@pytest.mark.parametrize(
    ("classes", "error", "words"),
    [
        (["cat", "dog", "yeti"], ValueError, r"every label; \['yeti'\] are not in it.*Give each of them a parent"),
        (["cat", "bird"], ValueError, "the label 'bird' has 'finch' below it.*'bird, no finer'"),
        ([1, 2], TypeError, "classes are .* such as 1, 2.*no label can equal"),
    ],
)
def test_labels_that_are_no_leaves_are_refused(classes, error, words):
    sets = PredictionSets.of(np.ones((1, len(classes)), dtype=bool), classes)
    for use in (lambda taxonomy: sets.roll_up(taxonomy), lambda taxonomy: taxonomy.at_depth(classes)):
        with pytest.raises(error, match=words):
            use(Taxonomy(ANIMALS))
    with pytest.raises(TypeError, match=r"taxonomy must be an aptset.Taxonomy; got dict"):
        sets.roll_up(ANIMALS)
    with pytest.raises(ValueError, match="at_most must be a whole number of nodes, at least 1; got 0"):
        PredictionSets.of([["cat"]]).roll_up(Taxonomy(ANIMALS), 0)


def test_probabilities_of_nodes_are_those_of_their_labels_added_up():
    generator, taxonomy = np.random.default_rng(0), Taxonomy(ANIMALS)
    classes = np.array(["oak", "owl", "dog", "cat", "finch"])
    P = generator.dirichlet(np.ones(5), size=50)
    expected = {"bird": P[:, [1, 4]].sum(1), "mammal": P[:, [2, 3]].sum(1), "oak": P[:, 0]}
    summed = taxonomy.collapse(P, 2, classes)
    assert np.abs(summed - np.column_stack(list(expected.values()))).max() < 1e-15
    assert taxonomy.nodes(2, classes) == list(expected)
    assert np.array_equal(taxonomy.collapse(P[7:8], 2, classes), summed[7:8])
    frame = taxonomy.collapse(pd.DataFrame(P, columns=classes, index=range(5, 55)), 2)
    assert list(frame) == list(expected)
    assert frame.index[0] == 5
    assert np.array_equal(frame.to_numpy(), summed)
    assert taxonomy.collapse(pl.DataFrame(P, schema=classes.tolist()), 1).columns == ["animal", "plant"]
    assert np.array_equal(taxonomy.collapse(P, 9, classes)[:, 0], (P[:, 4] + 2) - 2)
    assert taxonomy.at_depth(["owl", "oak", "owl"], 2).tolist() == ["bird", "oak", "bird"]
    assert taxonomy.at_depth([], 2).tolist() == []
    with pytest.raises(ValueError, match=r"at least 0; got -1.0 in row 1, column 2. If these are logits"):
        taxonomy.collapse([[0.2] * 5, [1, 1, -1, 0, 0]], classes=classes)
    with pytest.raises(TypeError, match=r"classes are .*no label can equal"):
        taxonomy.collapse(P)


def test_sets_of_nodes_are_calibrated_like_any_others():
    """2,000 rows after 2,000 calibration rows: coverage below 0.85 comes in less than one of 10^6 (Beta-binomial)."""
    generator = np.random.default_rng(0)
    P = generator.dirichlet(np.full(30, 0.1), size=4000)
    y = (generator.random((4000, 1)) > P.cumsum(axis=1)[:, :-1]).sum(axis=1)
    taxonomy = Taxonomy({label: f"group {label // 5}" for label in range(30)})
    nodes, groups = taxonomy.nodes(), taxonomy.collapse(P)
    calibration = aptset.calibrate(groups[:2000], taxonomy.at_depth(y[:2000]), classes=nodes, random_state=0)
    sets = calibration.predict_set(groups[2000:], alpha=0.1)
    assert aptset.coverage(sets, taxonomy.at_depth(y[2000:])) > 0.85
    assert sets.sizes.mean() < 5


def test_bands_are_the_nodes_of_a_depth():
    bands = LabelBands.from_taxonomy(Taxonomy(ANIMALS), 2)
    assert bands == LabelBands({"finch": "bird", "owl": "bird", "cat": "mammal", "dog": "mammal", "oak": "oak"})
