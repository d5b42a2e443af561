"""python -m tests.fuzz: the long run; prints attempts and faults, and ends with 1 if there are any."""

import argparse
import sys

from tests.fuzz.running import fuzz

SHARES = {"cli": 0.4, "spec": 0.3, "store": 0.1, "checkpoint": 0.1, "url": 0.1}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--attempts", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kind", choices=[*SHARES], help="only these")
    given = parser.parse_args()
    shares = {given.kind: 1.0} if given.kind else SHARES
    tally = fuzz({kind: round(share * given.attempts) for kind, share in shares.items()}, given.seed, given.jobs)
    print("\n".join(tally.lines()))
    sys.exit(1 if tally.faults else 0)


if __name__ == "__main__":
    main()
