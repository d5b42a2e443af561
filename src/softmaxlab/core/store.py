"""A folder of results, one sub-folder each, named by content key.

Writers never touch a visible entry, so any number of processes may share a store, and a killed one leaves it whole.
"""

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

from softmaxlab.core.files import check_writable, draft_folder, remove_abandoned
from softmaxlab.core.result import Result
from softmaxlab.core.spec import KEY_LENGTH, Spec
from softmaxlab.errors import DamagedError, StoreError

log = logging.getLogger(__name__)
KEY = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}")


class Store:
    """`store.put(result)`, `store.get(spec)`; nothing is created before the first put."""

    def __init__(self, root: str | Path = "runs"):
        self.root = Path(root)
        if self.root.exists() and not self.root.is_dir():
            raise StoreError(f"the store {self.root} is a file, expected a folder")
        remove_abandoned(self.root)

    def check_writable(self) -> None:
        """Refuse a folder in which nothing could be kept, before the work."""
        check_writable(self.root, f"the store {self.root}")

    def folder(self, key: str) -> Path:
        if not isinstance(key, str) or not KEY.fullmatch(key):
            raise StoreError(f"{key!r} is not a content key ({KEY_LENGTH} hex digits)")
        return self.root / key

    def keys(self) -> tuple[str, ...]:
        """The keys of all entries, damaged ones included."""
        return tuple(sorted(p.name for p in self.root.glob("*") if KEY.fullmatch(p.name)))

    def load(self, key: str) -> Result:
        """One entry by key; a damaged one, or one filed under a wrong key, raises StoreError."""
        return Result.load(self.folder(key), key)

    def get(self, spec: Spec) -> Result | None:
        """The result of a spec, or None if it is absent or damaged (damage is logged, so it is computed anew)."""
        if not self.folder(spec.key).exists():
            return None
        try:
            return self.load(spec.key)
        except DamagedError as error:
            log.warning("%s; it will be computed again", error)
            return None

    def put(self, result: Result) -> Path:
        """File a result under its spec's key. A whole entry that is there already stays; a damaged one is replaced."""
        if result.spec is None:
            raise StoreError("only a result with a spec can be stored")
        key = result.spec.key
        folder = self.folder(key)
        if folder.exists() and self.get(result.spec) is None:
            remove_damaged(folder, key)
        result.write(folder, key)
        return folder

    def __contains__(self, spec: Spec) -> bool:
        return self.get(spec) is not None

    def __iter__(self) -> Iterator[Result]:
        """All results that can be read; the others are logged."""
        for key in self.keys():
            try:
                yield self.load(key)
            except StoreError as error:
                log.warning("%s", error)

    def __len__(self) -> int:
        return len(self.keys())

    def __repr__(self) -> str:
        return f"<Store {str(self.root)!r}, {len(self)} results>"


def remove_damaged(folder: Path, key: str) -> None:
    """Delete a damaged result: rename, look again, remove, so that no whole result written meanwhile is lost."""
    with draft_folder(folder.parent) as draft:
        aside = draft / folder.name
        try:
            os.rename(folder, aside)
        except FileNotFoundError:
            return  # another writer was faster
        with contextlib.suppress(DamagedError, OSError):
            Result.load(aside, key)
            os.rename(aside, folder)
