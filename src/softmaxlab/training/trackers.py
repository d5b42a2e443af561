"""The loss of a run as it goes, for those who watch it: a hook that is off unless chosen.

A choice is "jsonl:FOLDER", "tensorboard:FOLDER" or "wandb:FOLDER". It travels in the environment, as plugins do, so
runs in spawned, Ray and SLURM workers are tracked too. The loss is read every EVERY steps and at the last step. Nothing
is sent anywhere: wandb runs offline.
"""

import json
import math
import os
from pathlib import Path
from typing import Protocol

from softmaxlab.core.spec import Spec
from softmaxlab.errors import SpecError, unknown

VARIABLE = "SOFTMAXLAB_TRACK"
EVERY = 20  # steps between two readings of the loss


class Tracker(Protocol):
    def log(self, step: int, values: dict[str, float]) -> None: ...

    def close(self) -> None: ...


class Jsonl:
    """One line a reading, in FOLDER/key.jsonl."""

    def __init__(self, folder: Path, spec: Spec):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / f"{spec.key}.jsonl").open("w")
        self.log(0, {"spec": spec.plain()})

    def log(self, step: int, values: dict) -> None:
        finite = {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in values.items()}
        self.file.write(json.dumps({"step": step} | finite) + "\n")  # JSON has no NaN: a diverged loss is null
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class Tensorboard:
    def __init__(self, folder: Path, spec: Spec):
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]

        self.writer = SummaryWriter(str(folder / spec.key))
        self.writer.add_text("spec", spec.json_text())

    def log(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class Wandb:
    def __init__(self, folder: Path, spec: Spec):
        import wandb  # pyright: ignore[reportMissingImports]

        folder.mkdir(parents=True, exist_ok=True)
        self.run = wandb.init(
            project="softmaxlab", mode="offline", dir=folder, id=spec.key, name=f"{spec.kind}-{spec.key[:8]}",
            config=spec.plain(), reinit="create_new", settings=wandb.Settings(silent=True),
        )  # fmt: skip

    def log(self, step: int, values: dict[str, float]) -> None:
        self.run.log(values, step=step)

    def close(self) -> None:
        self.run.finish()


TRACKERS = {"jsonl": Jsonl, "tensorboard": Tensorboard, "wandb": Wandb}
PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}


def choose(name: str | None, folder: str | Path) -> None:
    """Track the runs from here on, in this process and those it starts; None switches it off."""
    if name is None:
        os.environ.pop(VARIABLE, None)
        return
    _check(name)
    os.environ[VARIABLE] = f"{name}:{Path(folder).resolve()}"


def tracker(spec: Spec) -> Tracker | None:
    """A new tracker for a run, or None if none is chosen."""
    name, _, folder = os.environ.get(VARIABLE, "").partition(":")
    if not name:
        return None
    _check(name)
    return TRACKERS[name](Path(folder), spec)


def _check(name: str) -> None:
    """Refuse a tracker that is not known or not installed."""
    import importlib.util

    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    package = PACKAGES.get(name)
    if package and importlib.util.find_spec(package) is None:
        raise SpecError(f"tracker {name!r} needs the package {package}: pip install 'softmaxlab[track]'")
