"""Rows that hypothesis finds: torch's operations give what numpy's engine gives, and a graph's mask is the layer's."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import aptset
from aptset.kernels.engines.torch_engine import TORCH
from aptset.kernels.formula import Formula
from aptset.kernels.membership import masks
from aptset.kernels.rows import Rows, all_scores_of_block, label_scores
from aptset.kernels.tensors import TensorRows
from aptset.scores import SCORES
from aptset.torch import SetLayer
from aptset.torch.operator import masks_in_graph
from rows_strategy import matrices, uniforms

FIXED = settings(derandomize=True, deadline=None, max_examples=150)
NAMES = st.sampled_from(sorted(SCORES))


@FIXED
@given(matrices(max_classes=30), NAMES, st.one_of(st.none(), uniforms), st.integers(0, 2**64 - 1), st.data())
def test_scores_and_masks(matrix, name, u, key, data):
    weights, u = SCORES[name]().weights, None if u is None else np.full(len(matrix), u)
    rows = Rows(matrix, Formula(weights), key, 0.05, u=u)
    tensor = TensorRows(torch.from_numpy(matrix), weights, key, 0.05, u=None if u is None else torch.from_numpy(u))
    scores, bad = all_scores_of_block(rows.seeded(), 0, len(rows))
    assert bad == -1
    np.testing.assert_array_equal(TORCH.all_scores(tensor)[0].numpy(), scores)
    labels = np.array(data.draw(st.lists(st.integers(0, matrix.shape[1] - 1), min_size=len(rows), max_size=len(rows))))
    found = TORCH.label_scores(tensor, torch.from_numpy(labels))[0].numpy()
    np.testing.assert_array_equal(found, label_scores(rows, labels).scores)
    threshold = data.draw(st.sampled_from(sorted(set(scores.ravel()))))
    for min_size in (0, 1):
        found = TORCH.mask(tensor, torch.tensor([threshold], dtype=torch.float64), min_size)[0].numpy()
        np.testing.assert_array_equal(found, masks(rows, np.array([[threshold]]), min_size)[0])
        of_labels = np.array(data.draw(st.permutations(scores[0].tolist())))
        found = TORCH.mask_by_label(tensor, torch.from_numpy(of_labels), min_size)[0].numpy()
        np.testing.assert_array_equal(found, masks(rows, of_labels[None], min_size)[0])


@FIXED
@given(matrices(max_classes=9, max_rows=9), NAMES, st.sampled_from([1.0, 0.5, 1.65625]), st.booleans())
def test_the_graph_of_a_layer(matrix, name, power, allow_empty):
    """Operations of the graph run one by one here; compilers are held to them elsewhere."""
    score = SCORES[name]() if power == 1.0 else aptset.Tempered(SCORES[name](), power)
    labels = np.arange(len(matrix)) % matrix.shape[1]
    calibration = aptset.calibrate(matrix, labels, conformity=score, allow_empty=allow_empty, random_state=0)
    layer = SetLayer.of(calibration, 0.9, logits=False)
    inputs = torch.from_numpy(matrix)
    found = masks_in_graph(layer, inputs, 0.02)[0]
    assert torch.equal(found, layer(inputs))
    np.testing.assert_array_equal(found.numpy(), calibration.predict_mask(matrix, 0.9, ids=None))
