"""Artefacts on disk: one container, and one way to say what it must hold. Opening one runs no code.

A container is a safetensors file. Its metadata has one text, ``aptset``: a JSON object of plain facts, with the number
of the format and the kind of the artefact. The tensor ``digest`` (16 bytes) is the blake2b of that text and of the
names, types, shapes and bytes of the other tensors, so that any damage is noticed; equal content makes equal files. A
digest is no signature: whoever can write the file can renew it.
So every file is untrusted input. A kind of artefact (a calibration, a classifier, a stream, a monitor) is a
:class:`Schema`: its facts with their types and rules, its tensors with their types and shapes, and the relations that
hold between them. All of it is checked before anything of a file is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.files import atomic_path, check_exists
from aptset.core.labels import as_objects

FORMAT = 1
LONGEST_TEXT = 64 * 2**20  # safetensors itself stops at 100 million bytes
_DEEPEST = 8  # as deep as the labels of a score within a score within a score
_DIGEST = "digest"
_READERS = {
    **dict.fromkeys(("split", "cross", "thresholds", "grid", "acceptance", "acceptance_threshold"), "aptset.load"),
    "classifier": "aptset.load, given its folder,",
    "online": "aptset.Online.load",
    "monitor": "aptset.CoverageMonitor.load",
    "error_monitor": "aptset.ErrorMonitor.load",
}
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)

Facts = dict[str, Any]
Tensors = dict[str, NDArray[Any]]
Rules = dict[str, Callable[[], Any]]  # what must hold, in words, and whether it does


def damaged(path: str | Path, why: str, remedy: str = "") -> ValueError:
    """Return the one error about a file or a folder that cannot be trusted."""
    command = "run" if Path(path).is_dir() else "calibrate"
    remedy = remedy or f"Make it again with `aptset {command}` or save()."
    return ValueError(f"{path} is no intact aptset artefact: {why}. {remedy}")


def unknown_kind(where: str | Path, what: str, name: Any) -> ValueError:
    """Return the one error about something that a later version may have written."""
    shown = re.sub(r"[^ -~]", "?", str(name))[:200]
    return ValueError(
        f"{where} has a {what} that this version of aptset does not know: {shown}. Upgrade aptset, or make it again."
    )


def require(path: str | Path, rules: Rules, remedy: str = "") -> None:
    """Refuse a file for the first rule that does not hold; a rule may rely on those before it."""
    for rule, holds in rules.items():
        if not holds():
            raise damaged(path, rule, remedy)


_NUMBERS = (int, int | float, int | None)


class Field(NamedTuple):
    """A fact: the types of JSON that it may have, and a rule, in words and as a function of what is not null."""

    kind: Any
    rule: str = ""
    holds: Callable[[Any], Any] = lambda value: True
    optional: bool = False  # left out of a file where it is None


class Tensor(NamedTuple):
    """A tensor: the types that it may have, and its sizes by name; equal names are equal sizes."""

    kinds: str
    sizes: tuple[str, ...]
    optional: bool = False


class Schema(NamedTuple):
    """What one kind of artefact holds.

    ``sizes`` returns the sizes of tensors that follow from the facts and from which tensors there are; other sizes are
    what they are in the first tensor that has them. ``rules`` are the relations between facts and tensors.
    """

    fields: Mapping[str, Field]
    tensors: Mapping[str, Tensor]
    sizes: Callable[[Facts, Any], dict[str, int]] = lambda facts, names: {}
    rules: Callable[[Facts, Tensors], Rules] = lambda facts, tensors: {}

    def misfit(self, facts: Facts, shapes: dict[str, tuple[str, list[int]]]) -> str | None:
        """Return what is wrong with the tensors, as far as their names, types and shapes tell."""
        sizes = self.sizes(facts, shapes.keys())
        unknown = sorted(shapes.keys() - self.tensors.keys())
        if unknown:
            return f"it must not hold a tensor {unknown[0][:40]!r}"
        for name, tensor in self.tensors.items():
            if name not in shapes and tensor.optional:
                continue
            kind, shape = shapes.get(name, ("", []))
            is_right = kind in tensor.kinds.split() and len(shape) == len(tensor.sizes)
            if not is_right or any(sizes.setdefault(*at) != at[1] for at in zip(tensor.sizes, shape, strict=True)):
                wanted = ", ".join(f"{sizes.get(size, 'any')} {size}" for size in tensor.sizes)
                return f"it must hold a tensor {name} of type {' or '.join(tensor.kinds.split())} and size ({wanted})"
        return None


class Store(NamedTuple):
    """The kinds of artefacts that one reader takes, what they are called, and what to do about a damaged one."""

    schemas: Mapping[str, Schema]
    what: str
    remedy: str = ""
    brackets: int = 64  # in the JSON; a flood of them would take 20 times its size in memory

    def read(self, path: str | Path, where: Path | None = None) -> tuple[Facts, Tensors]:
        """Return the checked facts and tensors of a file; errors name ``where``, or the file itself."""
        from safetensors import SafetensorError, safe_open

        place = where or path
        check_exists(Path(path), "Copy its content to a file first.")
        try:
            with safe_open(Path(path), framework="np") as file:
                metadata = file.metadata() or {}
                facts = self._facts(place, metadata)
                schema, names = self.schemas[facts["kind"]], {*file.keys()} - {_DIGEST}
                slices = {name: file.get_slice(name) for name in sorted(names)}
                misfit = schema.misfit(facts, {key: (one.get_dtype(), one.get_shape()) for key, one in slices.items()})
                tensors = {} if misfit else {name: file.get_tensor(name) for name in slices}
                stored = file.get_tensor(_DIGEST) if file.get_slice(_DIGEST).get_shape() == [16] else np.zeros(0)
        except (SafetensorError, TypeError, KeyError, AttributeError, MemoryError) as error:
            raise damaged(place, f"not a readable file of tensors ({error})", self.remedy) from error
        if misfit:
            raise damaged(place, misfit, self.remedy)
        if metadata.keys() != {"aptset"} or stored.tolist() != digest(metadata["aptset"], tensors).tolist():
            raise damaged(place, "its content does not match its digest", self.remedy)
        require(place, schema.rules(facts, tensors), self.remedy)
        return facts, tensors

    def _facts(self, path: str | Path, metadata: dict[str, str]) -> Facts:
        """Return the facts of a file, of which each has its type and keeps its rule."""
        if "aptset" not in metadata:
            raise damaged(path, "it has no aptset metadata", self.remedy)
        facts = self._parsed(path, metadata["aptset"])
        if not isinstance(facts, dict) or type(facts.get("format")) is not int:
            raise damaged(path, "its metadata has no format version", self.remedy)
        if facts["format"] > FORMAT:
            writer = re.sub("[^0-9A-Za-z.+!_-]", "?", str(facts.get("library", "?"))[:40])  # it goes to a terminal
            raise ValueError(
                f"{path} has format {facts['format']}, written by aptset {writer}; this version reads formats up to "
                f"{FORMAT}. Upgrade aptset."
            )
        if isinstance(facts.get("kind"), str) and facts["kind"] not in self.schemas:
            if facts["kind"] in _READERS:
                reader = _READERS[facts["kind"]]
                raise ValueError(
                    f"{path} must be an artefact of another kind: {facts['kind']!r} is what {reader} reads."
                )
            raise unknown_kind(path, self.what, facts["kind"])
        fields = self.schemas[facts["kind"]].fields if isinstance(facts.get("kind"), str) else {"kind": Field(str)}
        facts |= {name: None for name, field in fields.items() if field.optional and name not in facts}
        wrong = [
            name
            for name, field in fields.items()
            if name not in facts
            or not isinstance(facts[name], field.kind)
            or (isinstance(facts[name], bool) and field.kind in _NUMBERS)  # true and false are no numbers
        ]
        if wrong or facts["format"] < 1:
            raise damaged(path, f"its metadata is incomplete ({', '.join(wrong or ['format'])})", self.remedy)
        unknown = sorted(facts.keys() - fields.keys() - {"format", "kind"})
        if unknown:  # what this version does not know may change what the rest means
            why = f"its metadata says {unknown[0][:40]!r}, which this version does not understand"
            raise damaged(path, why, self.remedy)
        for name, field in fields.items():
            if field.rule and facts[name] is not None and not field.holds(facts[name]):
                raise damaged(path, field.rule, self.remedy)
        return facts

    def _parsed(self, path: str | Path, text: str) -> Any:
        """Parse JSON of ours: no longer, deeper or fuller of brackets than an artefact can be, and no key twice."""
        if len(text) > LONGEST_TEXT:
            raise damaged(path, f"its metadata is longer than {LONGEST_TEXT} characters", self.remedy)
        depth = deepest = 0
        bare = _STRINGS.sub("", text)
        brackets = re.findall(r"[\[\]{}]", bare)
        for bracket in brackets[: 2 * self.brackets + 1]:
            depth += 1 if bracket in "[{" else -1
            deepest = max(deepest, depth)
        if len(brackets) > 2 * self.brackets or deepest > _DEEPEST:
            raise damaged(path, "its metadata is nested deeper than that of an artefact", self.remedy)
        try:
            content = json.loads(text)
            if _count_keys(content) != bare.count(":"):
                raise ValueError("a key twice")
        except (ValueError, RecursionError) as error:
            raise damaged(path, "its metadata is not JSON", self.remedy) from error
        return content


def _count_keys(content: Any) -> int:
    """Return how many keys all objects of JSON have together, one inside another."""
    n_keys, values = 0, [content]
    while values:
        value = values.pop()
        n_keys += len(value) if isinstance(value, dict) else 0
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        values += [part for part in parts if isinstance(part, dict | list)]
    return n_keys


def stored_kind(path: str | Path) -> str | None:
    """Return what kind of artefact a file says to be, None if it says nothing: its reader checks all of it."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():  # a pipe would be waited for
        return None
    try:
        with safe_open(Path(path), framework="np") as file:
            text = (file.metadata() or {}).get("aptset", "")
        facts = json.loads(text) if len(text) <= LONGEST_TEXT else None
    except (SafetensorError, OSError, ValueError, RecursionError, MemoryError):
        return None
    kind = facts.get("kind") if isinstance(facts, dict) else None
    return kind if isinstance(kind, str) else None


def write(path: str | Path, kind: str, facts: Facts, tensors: Tensors) -> None:
    """Write an artefact, atomically: a kill at any moment leaves the old file or the new one."""
    write_text(path, json.dumps({"format": FORMAT, "kind": kind, **facts}, sort_keys=True), tensors)


def write_text(path: str | Path, text: str, tensors: Tensors) -> None:
    """Write a container around a text of facts, with the digest that fits."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    if len(text) > LONGEST_TEXT:
        raise ValueError(
            f"{path} cannot hold so many names of classes and groups: {len(text)} characters, where {LONGEST_TEXT} "
            "are the limit. Use shorter names or fewer groups."
        )
    content = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
    content[_DIGEST] = digest(text, content)
    with atomic_path(path) as temporary:
        try:
            save_file(content, temporary, metadata={"aptset": text})  # of two texts the order would be any
        except SafetensorError as error:
            raise OSError(f"{path} cannot be written: {error}") from error


def digest(text: str, tensors: Tensors) -> NDArray[np.uint8]:
    """Return the digest of a text of facts and of tensors."""
    content = blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        content.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        content.update(np.ascontiguousarray(tensors[name]).data)
    return np.frombuffer(content.digest(), dtype=np.uint8)


def are_words(*texts: Any) -> bool:
    """Tell whether all texts are whole numbers of 64 bits, written in the one way."""
    return all(
        isinstance(text, str) and re.fullmatch("0|[1-9][0-9]{0,19}", text) is not None and int(text) < 2**64
        for text in texts
    )


def stored_fraction(text: Any) -> Fraction:
    """Return a fraction as ``str`` writes it; -1 for anything else: a power of ten may be of any length."""
    try:
        is_plain = isinstance(text, str) and re.fullmatch("[0-9]+(/[0-9]+)?", text) is not None
        return Fraction(text) if is_plain else Fraction(-1)
    except (ValueError, ZeroDivisionError):  # thousands of digits; a denominator of 0
        return Fraction(-1)


def share_out(counts: NDArray[Any], n: int, least: int = 0) -> bool:
    """Tell whether counts share n things out, each at least so many; no sum before all are small: it would wrap."""
    return bool((counts >= least).all() and (counts <= n).all()) and sum(counts.tolist()) == n


def _is_time(text: str) -> bool:
    try:
        return len(text) < 64 and text.isprintable() and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def count(name: str, least: int = 0) -> Field:
    """Return a field that counts rows; beyond 2^53 counts are no exact numbers."""
    return Field(int, f"its {name} must be a count from {least} to 2^53", lambda value: least <= value < 2**53)


ALPHA = Field(str, "its alpha must be a fraction in (0, 1)", lambda text: 0 < stored_fraction(text) < 1)
# Who wrote a file, and when.
ORIGIN = {
    "library": Field(
        str,
        "its version must be a few plain characters",
        lambda text: re.fullmatch(r"[0-9A-Za-z.+!_-]{1,64}", text) is not None,
    ),
    "created": Field(str, "its creation must be a time", _is_time),
}


def origin() -> Facts:
    """Return who writes a file, and when."""
    from importlib.metadata import version  # takes as long to load as a third of numpy

    return {"library": version("aptset"), "created": datetime.now(UTC).isoformat(timespec="seconds")}


def unstorable(values: Iterable[Any]) -> list[Any]:
    """Return the labels, groups and settings that cannot go into an artefact and come back.

    A text with half a character of UTF-16 cannot, nor can a float that is no number.
    """
    return [
        value
        for value in values
        if not (value is None or isinstance(value, bool | int) or (isinstance(value, float) and value == value))
        and not (isinstance(value, str) and (value.isascii() or not re.search("[\ud800-\udfff]", value)))
    ]


def storable_value(value: Any) -> Any:
    """Return a label, a group or a setting as JSON takes it."""
    value = value.item() if isinstance(value, np.generic) else value
    if not unstorable([value]):
        return value
    raise TypeError(
        f"labels, groups and folds must be texts, numbers, booleans or None to be saved; got {value!r}. Pass texts "
        "that stand for them instead, such as str(label), or the name of a member of an Enum."
    )


def storable_labels(values: NDArray[Any]) -> Facts:
    """Return labels as JSON takes them; as objects where an array would make something else of them."""
    plain = [storable_value(value) for value in values.tolist()]
    is_object = values.dtype == object or not same_values(np.array(plain).tolist(), plain)
    return {"values": plain, "objects": is_object}


def check_stored_labels(path: str | Path, stored: Any, what: str) -> NDArray[Any]:
    """Return labels as an array; refuse those that are there twice or come back as something else."""
    parts = stored if isinstance(stored, dict) and stored.keys() == {"values", "objects"} else {}
    values, objects = parts.get("values"), parts.get("objects")
    if not isinstance(values, list) or not isinstance(objects, bool) or len(values) < 2:
        raise damaged(path, f"its {what} must be a list of at least 2 labels")
    check_stored_values(path, values, what)
    labels = as_objects(values) if objects else np.array(values)
    if not same_values(labels.tolist(), values):
        raise damaged(path, f"its {what} must be of one kind, or objects")
    return labels


def check_stored_values(path: str | Path, values: list[Any], what: str) -> None:
    """Refuse values that no label or group is, and values that are there twice (1, 1.0 and true are the same)."""
    for value in unstorable(values):
        raise damaged(path, f"its {what} must be texts, numbers, booleans or null; got {str(value)[:60]!r}")
    if len(set(values)) != len(values):
        raise damaged(path, f"its {what} must be distinct")


def same_values(values: list[Any], others: list[Any]) -> bool:
    """Tell whether values came through an array as they were, of the same types."""
    return values == others and list(map(type, values)) == list(map(type, others))
