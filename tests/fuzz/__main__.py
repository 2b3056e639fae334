"""Attack for some seconds: ``python -m fuzz 60``. Every round is a new one; a failure ends it with the input."""

import os
import sys
import time

from hypothesis import HealthCheck, given, settings

from fuzz.attacks import ATTACKS

ROUND = settings(
    max_examples=300, deadline=None, database=None, derandomize=False, suppress_health_check=list(HealthCheck)
)


def counted(name, counts):
    """Return an attack as a test of its own, which counts how it went."""
    strategy, check = ATTACKS[name]

    def attack(value):
        counts[name][bool(check(value))] += 1

    return ROUND(given(strategy)(attack))


def main(seconds):
    counts = {name: [0, 0] for name in ATTACKS}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name in ATTACKS:
            counted(name, counts)()
    for name, (refused, accepted) in counts.items():
        print(f"{name}: {refused + accepted:,} attacks, {refused:,} refused, {accepted:,} harmless, none got through")
    if "APTSET_SANITIZED" in os.environ:
        from fuzz import changing  # needs the build of sanitized.sh

        changing.main(seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
