"""Descent by the full gradient, for every compiled loss, map, model and optimizer."""

from softmaxlab.core.jit import entry
from softmaxlab.polarization.descent.compiled.gradient import VALUE, gradient
from softmaxlab.polarization.descent.compiled.optimizers import GD, update


@entry
def advance(problem, data, tensors, grads, work, optimizer, settings, memory, moves, start, stop):
    """Move the tensors in place from step `start` to `stop`; return the step reached and Σγ over the steps made.

    `tensors` and `grads` hold a, W and flat views of them. It stops before a step whose gradient is not sane.
    """
    a, W, flat_a, flat_W = tensors
    grad_a, grad_W, flat_grad_a, flat_grad_W = grads
    first_a, second_a, first_W, second_W = memory
    a_moves, W_moves = moves
    lr, decay = settings[0], settings[1]
    # plain descent of the value model needs no ∇_W: W takes the step at once
    at_once = W_moves and optimizer == GD and problem[0] == VALUE and decay == 0
    into, scale = (W, -lr) if at_once else (grad_W, 1.0)
    total = 0.0
    for step in range(start, stop):
        sane, gamma = gradient(problem, data, a, W, grad_a, into, scale, work, not at_once)
        if not sane:
            return step, total
        total += gamma
        if a_moves:
            update(optimizer, settings, flat_a, flat_grad_a, first_a, second_a, step + 1)
        if W_moves and not at_once:
            update(optimizer, settings, flat_W, flat_grad_W, first_W, second_W, step + 1)
    return stop, total
