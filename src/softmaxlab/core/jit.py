"""Compile kernels: IEEE arithmetic in source order, no GIL, 1/0 = inf as in NumPy.

`inner` is for functions called by other kernels. `inner_sum` is for sums and products of vectors and matrices, where
the order of additions is free, as it is in any linear algebra library: the processor then adds several at a time; NaN
and infinity stay exact. `inlined` is for a large function with a single caller, which Numba would otherwise optimise
twice, and `inlined_sum` for the innermost loop of an `entry_sum`, which is several times faster that way. `entry` is
for the few called from Python (`entry_sum` if the order of all its additions is free), which are kept on disk: beside
the source, in NUMBA_CACHE_DIR if it is set, or in the user's cache folder if the package is read-only. Where nothing
can be written the kernel is compiled anew in each process.
"""

import hashlib
from pathlib import Path
from typing import Any

import numba

# Kernels allocate nothing, so they need no reference counts (`_nrt`), which would cost more than the arithmetic.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False, "_nrt": False}
inner = numba.njit(forceinline=True, **OPTIONS)
FREE_ORDER: dict[str, Any] = OPTIONS | {"fastmath": {"contract", "reassoc"}}
inner_sum = numba.njit(forceinline=True, **FREE_ORDER)
inlined = numba.njit(inline="always", **OPTIONS)
inlined_sum = numba.njit(inline="always", **FREE_ORDER)


def entry(function: Any) -> Any:
    """Compile a kernel that Python calls, and keep it on disk."""
    return _kept(function, OPTIONS)


def entry_sum(function: Any) -> Any:
    """`entry` in which the order of additions is free."""
    return _kept(function, FREE_ORDER)


def _kept(function: Any, options: dict[str, Any]) -> Any:
    # Numba's cache watches the kernel's own file only; the hash of its folder in its name makes it see the others.
    function.__qualname__ += f"_{_sources(Path(function.__code__.co_filename).parent)}"
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to write to
        return numba.njit(**options)(function)


def _sources(folder: Path) -> str:
    shared = (Path(__file__).with_name(name) for name in ("jit.py", "exponential.py"))
    files = [*shared, *sorted(folder.glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
