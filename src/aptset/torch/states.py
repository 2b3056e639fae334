"""What the state of a layer must agree with before it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aptset.core.levels import CellLevel, alpha_of

if TYPE_CHECKING:
    from aptset.torch.layer import SetLayer

_FLAGS = ("randomized", "allow_empty", "normalize", "logits")


def described(layer: SetLayer) -> dict[str, float]:
    """Return the settings of a layer as numbers."""
    of_score = {f"conformity {number}": value for number, value in enumerate([*layer.weights.flat, layer.power])}
    flags = {name: float(getattr(layer, name)) for name in _FLAGS}
    levels: dict[str, float] = {}
    for number, level in enumerate(layer.alphas):
        alpha = alpha_of(level)
        parts = {"": alpha} if isinstance(alpha, float) else alpha
        levels |= {f"alpha {number} {name}".rstrip(): part for name, part in parts.items()}
        if isinstance(level, CellLevel) and level.assurance is not None:
            levels[f"assurance {number}"] = float(level.assurance.confidence)
            levels[f"assurance {number} simultaneous"] = float(level.assurance.simultaneous)
    return of_score | flags | levels


def differences(layer: SetLayer, state: dict[str, Any], prefix: str) -> list[str]:
    """Return the settings in which a state differs; where there are more or fewer of them torch says so."""
    found = state.get(f"{prefix}settings")
    if found is None or found.shape != layer.settings.shape or layer.settings.is_meta:
        return []
    differs = (found.cpu() != layer.settings.cpu()).tolist()
    names = [name.split()[0] for name, differ in zip(described(layer), differs, strict=True) if differ]
    return list(dict.fromkeys(names))
