"""A trained transformer on disk: one safetensors file, with the spec of its run in the header."""

from pathlib import Path

from softmaxlab.core.files import atomic
from softmaxlab.core.spec import from_json
from softmaxlab.errors import StoreError
from softmaxlab.training.run import Run, build

SPEC = "softmaxlab_spec"  # the header's entry


def save(model, spec: Run, path: str | Path) -> Path:
    """Write a model that `train(spec)` gave."""
    from safetensors.torch import save_file

    with atomic(Path(path)) as draft:
        save_file(model.state_dict(), draft, metadata={SPEC: spec.json_text()})
    return Path(path)


def load(path: str | Path, device: str = "cpu"):
    """The model and its spec."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device=device) as file:
            text = (file.metadata() or {}).get(SPEC)
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dict
    except (OSError, SafetensorError) as error:
        raise StoreError(f"cannot read the checkpoint {path}: {error}") from None
    spec = from_json(text) if text else None
    if not isinstance(spec, Run):
        raise StoreError(f"{path} is no checkpoint of a training run: its header has no spec of one")
    model = build(spec, device)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"the weights in {path} do not fit its spec: {reason}") from None
    return model, spec
