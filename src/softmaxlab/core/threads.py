"""BLAS on one thread, while we share the work among threads of our own or work on matrices too small to share.

Left alone, BLAS splits even small products, and its threads wait for each other by spinning: three times the processor
time for the same flow on two cores.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = 0
_limit = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS on one thread in the whole process while any thread is inside. It is also a decorator."""
    global _inside, _limit
    from threadpoolctl import threadpool_limits

    with _lock:
        if _inside == 0:
            _limit = threadpool_limits(1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None
