"""Files in the current folder that libraries read, or run, of themselves: here they do not count.

They look for them while they are imported, so they are imported with another folder as the current one.
"""

import contextlib
import importlib
import os
import platform
import sys
from pathlib import Path

NUMBA = ".numba_config.yaml"  # also says where compiled code is kept, which is run when it is read
READ_BY = {
    "matplotlibrc": "matplotlib",
    NUMBA: "numba",
    # cuSPARSELt, which comes with torch, looks for the driver in the current folder first, and in these below it
    **dict.fromkeys(("libcuda.so.1", "glibc-hwcaps", "tls", platform.machine()), "torch"),
}


def ignore() -> None:
    """Import now, elsewhere, what would read a file that is here; nothing if there is none."""
    found = {library for name, library in READ_BY.items() if os.path.lexists(name)}
    for library in sorted(found - sys.modules.keys()):
        with contextlib.chdir(Path(__file__).parent):
            importlib.import_module(library)
    if "numba" in found:  # it looks again before each compilation
        sys.modules["numba.core.config"]._config_fname = os.devnull  # type: ignore[attr-defined]
