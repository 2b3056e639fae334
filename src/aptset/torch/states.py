"""What the state of a layer must agree with before it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aptset.torch.layer import SetLayer

_FLAGS = ("randomized", "allow_empty", "normalize", "logits")


def described(layer: SetLayer) -> dict[str, float]:
    """Return the settings of a layer as numbers."""
    of_score = {f"conformity {number}": value for number, value in enumerate([*layer.weights.flat, layer.power])}
    flags = {name: float(getattr(layer, name)) for name in _FLAGS}
    return of_score | flags | {f"alpha {number}": float(alpha) for number, alpha in enumerate(layer.alphas)}


def differences(layer: SetLayer, state: dict[str, Any], prefix: str) -> list[str]:
    """Return the settings in which a state differs; where there are more or fewer of them torch says so."""
    found = state.get(f"{prefix}settings")
    if found is None or found.shape != layer.settings.shape or layer.settings.is_meta:
        return []
    differs = (found.cpu() != layer.settings.cpu()).tolist()
    names = [name.split()[0] for name, differ in zip(described(layer), differs, strict=True) if differ]
    return list(dict.fromkeys(names))
