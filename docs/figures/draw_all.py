"""Draws the figures of the pages, when the site is built: python docs/figures/draw_all.py does it alone."""

from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE / "generated"
MODULES = ("draw_method", "draw_results", "draw_shift")


def draw_all() -> None:
    """Draw every figure that is older than the scripts."""
    from style import write

    TARGET.mkdir(exist_ok=True)
    changed = max(path.stat().st_mtime for path in HERE.glob("*.py"))
    for module in MODULES:
        for name, draw in import_module(module).FIGURES.items():
            path = TARGET / f"{name}.svg"
            if not path.exists() or path.stat().st_mtime < changed:
                write(draw(), path)


if __name__ == "__main__":
    draw_all()
