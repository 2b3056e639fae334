"""Rows of every kind: random, peaked, flat, tied, all equal, with zeros, with numbers that a sum cannot see, copies."""

import numpy as np
import torch

DTYPES = {"float64": np.float64, "float32": np.float32, "float16": np.float16}


def ugly_rows(n_columns, n_rows=24, seed=0, dtype=np.float64):
    generator = np.random.default_rng([seed, n_columns])
    smooth = generator.gamma(1.0, size=(n_rows, n_columns))
    peaked = generator.gamma(0.02, size=(n_rows, n_columns)) + 1e-300
    flat = 1.0 + 1e-9 * generator.random((n_rows, n_columns))
    tied = generator.integers(0, 3, size=(n_rows, n_columns)).astype(float)
    tied[:, 0] += 1.0
    equal = np.ones((3, n_columns))
    single = np.zeros((2, n_columns))
    single[:, -1] = 1.0
    dust = np.zeros((4, n_columns))
    dust[:, 0] = 1.0
    dust[:, 1] = [5e-324, 1e-310, 1e-17, 2.0**-52]
    minus = tied[:2].copy()
    minus[minus == 0.0] = -0.0
    parts = [smooth, peaked, flat, tied, equal, single, dust, minus]
    every = np.concatenate([part / part.sum(axis=1, keepdims=True) for part in parts])
    every = np.concatenate([every, every[generator.integers(0, len(every), size=12)], every[:1], every[:1]])
    return np.ascontiguousarray(every[generator.permutation(len(every))].astype(dtype))


def labels_for(matrix, seed=0):
    generator = np.random.default_rng([seed, 7])
    drawn = generator.integers(0, matrix.shape[1], size=len(matrix))
    return np.where(generator.random(len(matrix)) < 0.6, matrix.astype(np.float64).argmax(axis=1), drawn)


def same(tensor, array):
    """Tell whether a tensor has the bits of an array (of scores: both zeros are one)."""
    return np.array_equal(tensor.cpu().numpy(), array)


def as_tensor(array, device):
    return torch.from_numpy(array).to(device)
