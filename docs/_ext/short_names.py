"""Finds what docstrings call by its short name: `calibrate` is `aptset.calibrate`, on whatever page it stands."""

from typing import Any


def resolve_short_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Return a reference to the one documented object whose name ends like this; None if there is none, or several."""
    if node.get("refdomain") != "py":
        return None
    domain, target = env.get_domain("py"), node["reftarget"]
    # An alias such as aptset.APS names the class by the module where it stands.
    short = target.rpartition(".")[2] if target.startswith("aptset.") else target
    found = [name for name in domain.objects if name.endswith(f".{short}")]
    names = [f"aptset.{short}"] if f"aptset.{short}" in found else found
    if len(names) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], names[0], node, contnode)


def setup(app: Any) -> dict[str, Any]:
    """Tell Sphinx whom to ask."""
    app.connect("missing-reference", resolve_short_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
