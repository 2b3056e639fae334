"""The table of questions, in the order of the page."""

from conformance.questions import coverage, definition, folds, keeping, rows

QUESTIONS = [*definition.QUESTIONS, *coverage.QUESTIONS, *rows.QUESTIONS, *folds.QUESTIONS, *keeping.QUESTIONS]
