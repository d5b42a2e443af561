"""A Ray cluster, or Ray on this machine. Results go through the store's folder, which all nodes must share.

A run whose worker or node dies is started again elsewhere, three attempts in all.
"""

import contextlib
import logging
import os
import re
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

from softmaxlab.core import current_folder, plugins
from softmaxlab.core.pool import ATTEMPTS, THREAD_VARIABLES
from softmaxlab.errors import SpecError
from softmaxlab.training import trackers
from softmaxlab.training.attempts import record_failure, run_one
from softmaxlab.training.executors import check_gpus, check_positive

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # else it reports to its makers
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else under `uv run` each worker resolves its own environment
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns of a coming change
    "RAY_task_oom_retries": str(ATTEMPTS - 1),  # else without end
}
REACH_SECONDS = 10.0


@dataclass(frozen=True)
class Ray:
    """`address` of a running cluster, or None to start Ray here with `jobs` cores. A run takes one core, and may
    take `gpus_per_task`, a fraction if several share one. Ray that runs in this process already is used as it is."""

    jobs: int | None = None
    address: str | None = None
    gpus_per_task: float = 0.0

    def __post_init__(self):
        if self.jobs is not None:
            check_positive("jobs", self.jobs)
            if self.address is not None:
                raise SpecError("jobs goes with Ray on this machine; a cluster at an address knows its own cores")
        check_gpus(self.gpus_per_task)

    def run(self, specs: Mapping[str, str], store: str, device: str, finished: Callable[[str], None]) -> None:
        with self._connected() as ray:
            if (there := ray.cluster_resources().get("GPU", 0.0)) < self.gpus_per_task:
                raise SpecError(f"a run is to have {self.gpus_per_task:g} GPUs, Ray has {there:g}")
            attempt = ray.remote(_run_in).options(
                num_cpus=1,
                num_gpus=self.gpus_per_task,
                max_retries=ATTEMPTS - 1,
                runtime_env={"env_vars": _environment()},
            )
            here = os.getcwd()
            running = {attempt.remote(here, key, spec, store, device): key for key, spec in specs.items()}
            while running:
                for ended in ray.wait(list(running))[0]:
                    key = running.pop(ended)
                    try:
                        ray.get(ended)
                    except ray.exceptions.RayError as error:
                        reason = f"Ray gave up after {ATTEMPTS} attempts: {_first_line(error)}"
                        record_failure(key, specs[key], store, reason, attempts=ATTEMPTS)
                    finished(key)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[ModuleType]:
        """Ray, started or joined if it is not there yet, and left again."""
        ray = _imported()
        with contextlib.redirect_stdout(sys.stderr):  # where Ray reports deaths
            if ray.is_initialized():
                self._warn_of_ignored()
                yield ray
                return
            with _kept_apart():
                self._join(ray) if self.address else _start(ray, self.jobs)
            try:
                yield ray
            finally:
                ray.shutdown()

    def _warn_of_ignored(self) -> None:
        given = {"jobs": self.jobs, "address": self.address}
        if ignored := [f"{name}={value!r}" for name, value in given.items() if value is not None]:
            warning = f"Ray runs in this process already and is used as it is: {ignored[0]} is ignored"
            warnings.warn(f"{warning} (call ray.shutdown() first to use it)", stacklevel=2)

    def _join(self, ray: ModuleType) -> None:
        try:
            _reach(str(self.address))
            ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            raise SpecError(f"no Ray cluster can be joined at {self.address!r}: {_first_line(error)}") from None


def _run_in(folder: str, *run: str) -> None:
    """`run_one` in the folder where the sweep was started, if this node has it."""
    with contextlib.suppress(OSError):
        os.chdir(folder)
    current_folder.ignore()
    run_one(*run)


@contextlib.contextmanager
def _kept_apart() -> Iterator[None]:
    """While Ray begins: it would have workers import from what is the current folder, and take SIGTERM for itself."""
    handler = signal.getsignal(signal.SIGTERM)
    with contextlib.chdir(os.path.abspath(os.sep)):
        yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _reach(address: str) -> None:
    """Knock at host:port, for Ray itself would try for minutes; other forms, such as auto, are left to Ray."""
    if place := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address):
        socket.create_connection((place[1], int(place[2])), timeout=REACH_SECONDS).close()


def _start(ray: ModuleType, cores: int | None) -> None:
    """Start Ray for this machine only, listening on the loopback interface."""
    from ray._private import services

    reachable, services.resolve_ip_for_localhost = services.resolve_ip_for_localhost, lambda host: host
    try:  # Ray would put an address that others can reach in place of 127.0.0.1
        ray.init(
            address="local",
            num_cpus=cores,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address="127.0.0.1",
        )
    except Exception as error:  # Ray raises no narrower one if this machine is too busy for it
        raise SpecError(f"executor 'ray' cannot be started on this machine: {_first_line(error)}") from None
    finally:
        services.resolve_ip_for_localhost = reachable


def _imported() -> ModuleType:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise SpecError("executor 'ray' needs the extra 'ray': pip install 'softmaxlab[ray]'") from None
    return ray


def _environment() -> dict[str, str]:
    """The environment of the workers: one thread each, the user's plugins, where to find them, and a tracker."""
    return dict.fromkeys(THREAD_VARIABLES, "1") | {
        **{name: os.environ.get(name, "") for name in (plugins.VARIABLE, plugins.FOLDERS, trackers.VARIABLE)},
        "PYTHONPATH": plugins.worker_environment()["PYTHONPATH"],
    }


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
