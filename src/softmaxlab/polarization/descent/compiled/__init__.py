"""Compiled kernels of discrete descent: one file per concern, integer codes in place of names.

One kernel with codes serves all losses × maps × models × optimizers, so everything is compiled once. Functions as
arguments would compile anew for each combination, and Numba does not cache such kernels from one process to the next.
"""
