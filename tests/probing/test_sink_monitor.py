"""Heads while a model is trained: which steps are measured, that training is left as it is, and where rows go."""

import numpy as np
import pytest
import torch
import transformers as tf

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.probing import SinkMonitor, watch
from tests.probing.families import VOCAB, build

T, STEPS, ACCUMULATED, EVERY = 12, 50, 4, 20
AGREES = 1e-6  # the same batch on the same weights, measured twice


class Texts(torch.utils.data.Dataset):
    """Random tokens; the same for the same index."""

    def __init__(self, size: int, packed: frozenset[int] = frozenset()) -> None:
        self.size, self.packed = size, packed

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(3, VOCAB, (T,), generator=torch.Generator().manual_seed(i))
        position = torch.arange(T)
        if i in self.packed:
            position = torch.cat([position[: T // 2], position[: T - T // 2]])
        return {"input_ids": ids, "labels": ids, "position_ids": position}


def trained(folder, callbacks, name="llama", packed=frozenset(), **changes):
    """A tiny model after 50 steps of four batches each, evaluated in between."""
    torch.manual_seed(0)
    model = build(name)
    model.train()
    options = {
        "output_dir": str(folder), "max_steps": STEPS, "gradient_accumulation_steps": ACCUMULATED,
        "per_device_train_batch_size": 2, "per_device_eval_batch_size": 2, "eval_strategy": "steps", "eval_steps": 10,
        "logging_steps": 10, "report_to": "none", "save_strategy": "no", "use_cpu": True, "disable_tqdm": True,
    }  # fmt: skip
    args = tf.TrainingArguments(**options | changes)
    trainer = tf.Trainer(model, args, train_dataset=Texts(64, packed), eval_dataset=Texts(4), callbacks=callbacks)
    trainer.train()
    return trainer


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("plain"), []).model.state_dict()


def test_a_trainer_measures_its_training_steps_and_trains_the_same(tmp_path, plain, capsys):
    callback = sl.probing.SinkCallback(every=EVERY)
    trainer = trained(tmp_path, [callback], report_to=["tensorboard"])
    assert callback.table()["step"].tolist() == [20, 40]
    assert callback.table()["sequences"].tolist() == [2 * ACCUMULATED] * 2  # no sequence of the evaluations
    assert sorted(set(callback.heads()["step"])) == [20, 40]
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, plain[name]), name
    logged = [row for row in trainer.state.log_history if "sinks/sink" in row]
    assert [row["step"] for row in logged] == [20, 40]
    assert [row["sinks/sink"] for row in logged] == callback.table()["sink"].tolist()
    assert "max_logit" in capsys.readouterr().out
    assert len(list(tmp_path.rglob("events.out*"))) == 2  # of the Trainer and of the callback, whatever the second
    shown = scalars(tmp_path)
    assert [step for step, _ in shown["train/sinks/max_logit"]] == [20, 40]
    np.testing.assert_allclose([v for _, v in shown["train/sinks/sink"]], callback.table()["sink"], rtol=1e-6)
    assert {"train/loss", "eval/loss"} <= set(shown)


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    """What a tracker wrote: the values of each name by step."""
    from tensorboardX.event_file_writer import EventsWriter  # noqa: F401  the package is there
    from tensorboardX.proto.event_pb2 import Event

    shown: dict[str, list[tuple[int, float]]] = {}
    for file in folder.rglob("events.out*"):
        data, at = file.read_bytes(), 0
        while at < len(data):  # a record: length, its checksum, the event, its checksum
            size = int.from_bytes(data[at : at + 8], "little")
            event = Event.FromString(data[at + 12 : at + 12 + size])
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    shown.setdefault(value.tag, []).append((event.step, value.simple_value))
            at += 16 + size
    return {name: sorted(values) for name, values in shown.items()}


@pytest.mark.parametrize("name", ["gpt_oss", "gpt2"])
def test_training_with_dropout_or_eager_attention_is_left_as_it_is(tmp_path, name):
    """gpt-oss attends in its own eager way, GPT-2 has dropout."""
    changes = {"max_steps": 6, "eval_strategy": "no"}
    one = trained(tmp_path, [], name, **changes).model.state_dict()
    callback = sl.probing.SinkCallback(every=1, quiet=True)
    other = trained(tmp_path, [callback], name, **changes).model.state_dict()
    assert len(callback.table()) == 6
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_packed_rows_are_left_out_with_a_warning(tmp_path, caplog):
    callback = sl.probing.SinkCallback(every=2, quiet=True)
    with caplog.at_level("WARNING", logger="softmaxlab"):
        trained(tmp_path, [callback], packed=frozenset(range(0, 64, 2)), max_steps=4, eval_strategy="no")
    assert sum("packed" in record.message for record in caplog.records) == 1
    measured = callback.table()["sequences"].sum()
    assert (callback.monitor.packed, measured) == (2 * 2 * ACCUMULATED - measured, measured)
    assert 0 < measured < 2 * 2 * ACCUMULATED


def steps(model, monitor, batches) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for ids in batches:
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step()


def test_a_loop_of_ones_own():
    model = build("llama").train()
    batches = [torch.randint(3, VOCAB, (2, T), generator=torch.Generator().manual_seed(i)) for i in range(7)]
    with SinkMonitor(model, every=3) as monitor:
        steps(model, monitor, batches[:4])
        with torch.no_grad():
            model(input_ids=batches[0])  # not a training pass
        steps(model, monitor, batches[4:6])
        with torch.no_grad(), watch(model.eval()) as w:  # the batch of step 6, on the weights after it
            model(input_ids=batches[5])
    assert monitor.table()["step"].tolist() == [3, 6]
    expected, measured = w.report(), monitor.heads().query("step == 6")
    for column in ("sink", "entropy", "max_logit", "sparsity"):
        np.testing.assert_allclose(measured[column], expected[column], atol=AGREES, err_msg=column)
    assert abs(monitor.table()["sink"].diff().iloc[1]) > 1e3 * AGREES  # training moves what is compared
    steps(model, monitor, batches[:1])
    assert len(monitor.rows) == 2  # closed


@pytest.mark.parametrize("every", [0, -1, 2.5, True, "10"])
def test_every_is_a_number_of_steps(every):
    for make in (sl.probing.SinkCallback, lambda every: SinkMonitor(build("llama"), every)):
        with pytest.raises(SpecError, match=r"every must be a whole number of optimizer steps from 1, got"):
            make(every)
