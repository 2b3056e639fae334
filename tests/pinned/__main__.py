"""Write the pinned digests anew: ``python -m pinned --write``; without it, list what differs."""

import sys

from pinned.pins import PINS, computed, differing, written

if __name__ == "__main__":
    if "--write" in sys.argv:
        PINS.write_text(written(computed()), encoding="utf-8")
    else:
        moved = differing(computed())
        print(*(moved or ["Nothing moved."]), sep="\n")
        sys.exit(bool(moved))
