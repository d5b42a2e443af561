"""Find gates: sites whose output does not go on as it is, because something multiplies it first.

The output of a head is then what comes out of the gate, which attention does not know, so `sink_output` and "dormant"
are not known either. Seen once per site: some module next to the site, usually its output map, must be called with
exactly what attention gave.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.probing.streaming.output_check import is_muted
from softmaxlab.probing.streaming.sites import Site


class OutputGates:
    """Hooks around every site until it is clear what its output is used for."""

    def __init__(self, top: nn.Module, sites: list[Site]) -> None:
        self._pending: dict[str, Tensor] = {}
        self._looked: set[str] = set()  # sites with a module that was called behind attention
        self._direct: set[str] = set()
        self._handles: dict[str, list[Any]] = {}
        for site in sites:
            around = top.get_submodule(site.name.rpartition(".")[0])
            inside = [module for module in around.modules() if module is not around and module is not site.module]
            self._handles[site.name] = [module.register_forward_pre_hook(self._hook(site.name)) for module in inside]

    def close(self) -> None:
        for name in self._handles:
            self._release(name)

    def add(self, site: Site, out: Tensor) -> None:
        """Take the output [B, T, H, D] of a site's call, which is about to go on."""
        if self._handles[site.name]:
            self._pending[site.name] = out

    def gated(self) -> set[str]:
        """The sites whose output was not seen to go on as it is."""
        return self._looked - self._direct

    def _hook(self, name: str) -> Callable[[nn.Module, tuple], None]:
        def before(_: nn.Module, args: tuple) -> None:
            if torch.compiler.is_compiling() or is_muted() or name not in self._pending:
                return
            self._looked.add(name)
            out = self._pending[name]
            for x in args:
                if isinstance(x, Tensor) and x.numel() == out.numel() and torch.equal(x.flatten(), out.flatten()):
                    self._direct.add(name)
                    self._release(name)

        return before

    def _release(self, name: str) -> None:
        for handle in self._handles[name]:
            handle.remove()
        self._handles[name] = []
        self._pending.pop(name, None)
