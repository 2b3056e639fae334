"""Labels of a stream as they become known: each row is judged by what was in force when it was asked about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words
from aptset.probabilities.answers import scores_of_labels
from aptset.probabilities.streams.asking import Question
from aptset.probabilities.streams.states import State


def take_in_labels(state: State, asked: Question, columns: NDArray[np.int64], numbers: NDArray[np.intp]) -> None:
    """Let a state know the labels of rows, by their columns and the numbers of their groups."""
    (_judge_call if state.waiting.is_next(asked.keys) else _judge_rows)(state, asked, columns, numbers)
    if not asked.by_id:
        state.numbering.go_on(asked.keys)
    if len(columns):
        state.shown.go_on(state.tracks, _met(numbers))
    if state.shown.is_long(state.waiting.n_at_most):
        state.shown.forget(state.waiting.moments())


def _judge_call(state: State, asked: Question, columns: NDArray[np.int64], numbers: NDArray[np.intp]) -> None:
    """Judge rows of one call by what was in force when it was answered."""
    seeds, moment = state.waiting.next_rows(len(columns))
    scores = _scores(asked, seeds, columns)
    state.waiting.drop_next(len(columns))
    for number in _met(numbers):
        state.tracks[number].learn_batch(scores[numbers == number], state.shown.to(number, moment))


def _judge_rows(state: State, asked: Question, columns: NDArray[np.int64], numbers: NDArray[np.intp]) -> None:
    """Judge rows one by one, each by what was in force when it was asked about, or now if it never was."""
    found, seeds = state.waiting.find(asked.keys), asked.seeds.copy()
    for row, one in found.items():
        seeds[row] = one.asked.seed
    scores = _scores(asked, seeds, columns)
    state.waiting.drop(one.number for one in found.values())
    for number in _met(numbers):
        mine = np.flatnonzero(numbers == number)
        given = [state.shown.to(number, found[row].asked.moment) if row in found else None for row in mine.tolist()]
        state.tracks[number].learn(scores[mine].tolist(), given)


def _met(numbers: NDArray[np.intp]) -> list[int]:
    """Return the groups that are among these; those that no calibration row had teach nothing."""
    found: list[int] = np.unique(numbers[numbers >= 0]).tolist()
    return found


def _scores(asked: Question, seeds: Words, columns: NDArray[np.int64]) -> Floats:
    """Return the scores of the true labels, with the chance that each row was asked about with."""
    return scores_of_labels(replace(asked.rows, seeds=seeds), columns).scores
