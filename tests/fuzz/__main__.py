"""python -m tests.fuzz: the long run; prints attempts and faults, and ends with 1 if there are any."""

import argparse
import os
import sys
from pathlib import Path

from tests.fuzz.running import fuzz

PROJECT = Path(__file__).parents[2]
SHARES = {"cli": 0.35, "spec": 0.2, "store": 0.15, "checkpoint": 0.15, "url": 0.15}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--attempts", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kind", choices=[*SHARES], help="only these")
    given = parser.parse_args()
    path = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)  # workers do not import from the current folder
    shares = {given.kind: 1.0} if given.kind else SHARES
    tally = fuzz({kind: round(share * given.attempts) for kind, share in shares.items()}, given.seed, given.jobs)
    print("\n".join(tally.lines()))
    sys.exit(1 if tally.faults else 0)


if __name__ == "__main__":
    main()
