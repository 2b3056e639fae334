"""Artefacts that are taken apart and put together again, as somebody who forges them would: the digest fits."""

import json

from safetensors import safe_open

from aptset.core.store import write_text


def taken_apart(path):
    """Return the facts and the tensors of an artefact, unchecked."""
    with safe_open(path, framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in {*file.keys()} - {"digest"}}
        return json.loads(file.metadata()["aptset"]), tensors


def forge(path, facts, tensors):
    """Write an artefact of any facts (or of any text in their place) and tensors."""
    write_text(path, facts if isinstance(facts, str) else json.dumps(facts, sort_keys=True), tensors)


def change(path, **facts):
    """Change some facts of an artefact."""
    told, tensors = taken_apart(path)
    forge(path, {**told, **facts}, tensors)
