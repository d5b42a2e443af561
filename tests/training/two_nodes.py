"""A sweep on a Ray cluster of two nodes on this machine, one of which is killed midway.

python -m tests.training.two_nodes STORE MARKS RUNS
prints how many runs were done, and how many had begun when the node was gone.
"""

import json
import sys
import threading
import time

from softmaxlab.training.executors.ray import Ray, _imported
from softmaxlab.training.sweep import sweep
from tests.training.faults import Trial, attempts, parents

SECONDS = 0.2  # a run's length
BEFORE_KILL = 10  # runs that have begun by then


def main(store: str, marks: str, runs: int) -> None:
    _imported()  # which sets Ray's environment
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    killer = threading.Thread(target=_kill_midway, args=(cluster, doomed, marks, begun := []))
    killer.start()
    trials = [Trial(marks, number, seconds=SECONDS) for number in range(runs)]
    table = sweep(trials, Ray(address=cluster.address), store=store)
    killer.join()
    cluster.shutdown()
    print(json.dumps({"counts": table["status"].value_counts().to_dict(), "begun_at_kill": begun[0]}))


def _kill_midway(cluster, node, marks: str, begun: list[int]) -> None:
    """Once both nodes are at work."""
    while len(parents(marks)) < 2 or attempts(marks).total() < BEFORE_KILL:
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)
    begun.append(attempts(marks).total())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
