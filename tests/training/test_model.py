"""The fast path is the plain model: same loss, gradients, and weights after 50 steps."""

import copy
import itertools

import pytest
import torch

import softmaxlab.training.model as model_module
from softmaxlab import attention
from softmaxlab.errors import SpecError
from softmaxlab.training import Classification, Induction, Run
from softmaxlab.training.deduplicate import Prefixes, prefix_numbers
from softmaxlab.training.loop import batches, train
from softmaxlab.training.model import Trace
from softmaxlab.training.run import build, optimizer_of
from tests.training import plain

ROUNDING = 1e-12  # float64, sums of a few thousand terms in another order
AFTER_50 = 1e-8  # AdamW divides by the size of a gradient, so it amplifies the rounding of small ones
TASKS = {
    "induction": Induction(vocab=9, tokens=5, train=200),
    "last only": Induction(vocab=9, tokens=5, aux=0.0, train=200),
    "same query": Induction(vocab=9, tokens=5, shifted=False, train=200),
    "classification": Classification(vocab=13, labels=3, tokens=4, train=200),
    "large groups": Classification(vocab=19, labels=3, tokens=4, train=200),
}
VARIANTS = [
    {},
    {"map": "softmax1"},
    {"map": "bayes_softmax"},
    {"map": "elu_elu_norm"},
    {"map": "mlp_norm"},
    {"map": "sigmoid", "gate": True},
    {"mlp": False, "layernorm": False},
    {"positions": "concat"},
    {"positions": "none", "layers": 1},
    {"layers": 3, "map": "linear"},
]


def spec_of(task, **changes):
    return Run(TASKS[task], **{"heads": 2, "width": 16, "epochs": 8, "batch": 32} | changes)


def gradients(model):
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


def first_step(model, data, aux, size=200):
    """Loss and gradients of a batch, as the training loop computes them."""
    order = iter([(0, torch.arange(size), True)])
    still = torch.optim.SGD(model.parameters(), lr=0.0)
    step = next(train(model, data, still, order, aux))
    return step.loss.item(), gradients(model)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("task", "changes"), list(itertools.product(TASKS, VARIANTS)))
def test_loss_and_gradients_equal_the_plain_ones(task, changes, compiled, monkeypatch):
    monkeypatch.setattr(model_module, "pays_off", lambda *_: compiled)
    spec = spec_of(task, **changes)
    model = build(spec).double()
    data, aux = spec.task.data(0, "train"), spec.task.weight_elsewhere()
    fast, ours = first_step(model, data, aux)
    model.zero_grad()
    slow = plain.loss(model, data.tokens, data.targets, aux)
    slow.backward()
    assert fast == pytest.approx(slow.item(), rel=ROUNDING)
    for a, b in zip(ours, gradients(model)):
        torch.testing.assert_close(a, b, rtol=0, atol=ROUNDING)


def rows_read_by(module, model, data, aux):
    sizes = []
    with module.register_forward_hook(lambda _, given, __: sizes.append(given[0].numel() // given[0].shape[-1])):
        first_step(model, data, aux)
    return sizes[0]


def test_equal_prefixes_are_computed_once():
    spec = spec_of("induction")
    model, data = build(spec), TASKS["induction"].data(0, "train")
    tokens = data.tokens[:200].tolist()
    different = {tuple(row[: t + 1]) for row in tokens for t in range(len(row))}
    assert len(different) < data.tokens.numel()
    for block in model.blocks:
        assert rows_read_by(block.mlp, model, data, 0.2) == len(different)


def test_prefixes_that_are_not_equal_must_not_be_shared():
    model, data = build(spec_of("induction")).double(), TASKS["induction"].data(0, "train")
    pairs, index = model.rows(data.tokens)
    right = model.logits(
        pairs, index, slice(None), prefixes=Prefixes.of(prefix_numbers(data.tokens, model.shape.symbols))
    )
    torch.testing.assert_close(right, model(data.tokens), rtol=0, atol=ROUNDING)
    wrong = model.logits(pairs, index, slice(None), prefixes=Prefixes.of(index))  # of the last token alone
    assert (wrong - right).abs().max() > 1e3 * ROUNDING


def test_samples_that_are_one_set_are_computed_once():
    task, model = TASKS["classification"], build(spec_of("classification"))
    assert rows_read_by(model.unembed, model, task.data(0, "train"), 0.0) == 3  # each label is one set
    data = TASKS["large groups"].data(0, "train")  # 6 tokens in a group, 4 in a sample: 3 · 15 sets
    sets = {tuple(sorted(row)) for row in data.tokens.tolist()}
    assert 3 < len(sets) <= 45
    model = build(spec_of("large groups"))
    assert rows_read_by(model.unembed, model, data, 0.0) == len(sets)


@pytest.mark.parametrize("task", TASKS)
def test_weights_after_50_steps_equal_the_plain_ones(task):
    spec = spec_of(task)
    data, aux = spec.task.data(0, "train"), spec.task.weight_elsewhere()
    fast, slow = build(spec).double(), build(spec).double()
    order = list(batches(200, 32, 8, 0, "cpu"))[:50]
    for _ in train(fast, data, optimizer_of(spec, fast), iter(order), aux):
        pass
    before = copy.deepcopy(slow.state_dict())
    plain.train(slow, data, order, aux, spec.lr, spec.weight_decay)
    for name, value in slow.state_dict().items():
        torch.testing.assert_close(fast.state_dict()[name], value, rtol=0, atol=AFTER_50)
    moved = max(float((before[name] - value).abs().max()) for name, value in slow.state_dict().items())
    assert moved > 1e3 * AFTER_50  # the comparison is not one of weights that stood still


def test_a_trace_holds_the_weights_of_every_layer_and_changes_nothing():
    model = build(spec_of("induction")).double()
    tokens = TASKS["induction"].data(0, "evaluate").tokens[:7]
    trace = Trace()
    torch.testing.assert_close(model(tokens, trace=trace), model(tokens), rtol=0, atol=ROUNDING)
    assert [w.shape for w in trace.weights] == [(7, 2, 7, 7)] * 2
    assert (trace.weights[0].triu(1) == 0).all()
    torch.testing.assert_close(trace.weights[1].sum(-1), torch.ones(7, 2, 7, dtype=torch.float64))


def test_a_user_s_map_may_read_the_order_of_the_keys():
    @attention.register(name="later_keys_less")
    def later_keys_less(scores, visible):
        return torch.softmax(scores - torch.arange(scores.shape[-1]), dim=-1)

    model = build(spec_of("classification", map="later_keys_less"))
    data = TASKS["classification"].data(0, "train")
    fast, _ = first_step(model.double(), data, 0.0)
    assert fast == pytest.approx(plain.loss(model, data.tokens, data.targets, 0.0).item(), rel=ROUNDING)


def test_the_same_seed_gives_the_same_model_and_leaves_torch_alone():
    state = torch.random.get_rng_state()
    one, two, other = (build(spec_of("induction", seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters()))
    assert not torch.equal(one.token.weight, other.token.weight)


@pytest.mark.parametrize(
    ("build_it", "message"),
    [
        (lambda: Run(Induction(), heads=3), "heads must divide width = 128, got 3"),
        (lambda: Run(Induction(), epochs=0), "epochs"),
        (lambda: Run(Induction(), map="sofmax"), "unknown map 'sofmax', did you mean 'softmax'"),
        (lambda: Induction(vocab=10, tokens=10), "vocab must be at least 11"),
        (lambda: Classification(vocab=42), "4 equal groups"),
        (lambda: Classification(vocab=21), "at least 10 tokens"),
        (lambda: Run(Induction(), width=7, heads=7, positions="concat"), "width must be even"),
    ],
)
def test_bad_input_is_refused_before_any_training(build_it, message):
    with pytest.raises(SpecError, match=message):
        build_it()
