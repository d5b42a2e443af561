"""States of pages: permalinks round trip, bad query strings are told in one line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmaxlab.app.states import VALUE_MAPS, Attention, Polarization, Probe, Specialization
from softmaxlab.errors import SpecError


def numbers(low, high):
    return st.floats(low, high, allow_nan=False)


@st.composite
def polarizations(draw):
    p = draw(st.integers(2, 8))
    positive = st.lists(numbers(0.1, 3), min_size=p, max_size=p).map(tuple)
    return Polarization(
        loss=draw(st.sampled_from(["logistic", "square", "cross_entropy", "kl"])),
        map=draw(st.sampled_from(VALUE_MAPS)),
        optimizer=draw(st.sampled_from(["flow", "gd", "momentum", "adam", "adamw"])),
        p=p,
        u=draw(positive),
        a=draw(positive),  # positive scores are a sound start for every map
        horizon=draw(numbers(0, 2.5)),
        lr=draw(numbers(0.001, 1)),
    )


ATTENTIONS = st.builds(
    Attention, scores=st.lists(numbers(-6, 6), min_size=2, max_size=8).map(tuple), bias=numbers(-6, 6)
)
PROBES = st.builds(
    Probe,
    result=st.text(max_size=200),
    statistic=st.sampled_from(["sink", "sparsity", "entropy"]),
    layer=st.integers(0, 99),
    tokens=st.integers(2, 64),
)
SPECIALIZATIONS = st.builds(
    Specialization,
    prior=st.sampled_from(["flipping", "onehot", "gaussian"]),
    nu=numbers(0.1, 30),
    heads=st.integers(1, 6),
    map=st.sampled_from(["softmax", "softmax1", "bayes_softmax"]),
    at=st.integers(0, 100),
)


@given(st.one_of(polarizations(), ATTENTIONS, PROBES, SPECIALIZATIONS))
def test_a_permalink_restores_its_view(state):
    again = type(state).from_query(state.query())
    assert again == state
    assert again.query() == state.query()


@given(st.sampled_from([Polarization, Attention, Probe, Specialization]), st.text(max_size=80))
def test_any_query_string_gives_a_state_or_one_line(page, query):
    told = ""
    try:
        page.from_query(query)
    except SpecError as error:
        told = str(error)
    assert "\n" not in told


@pytest.mark.parametrize(
    ("page", "query", "message"),
    [
        (Polarization, "p=99", r"Polarization\.p must be less than or equal to 8, got 99"),
        (Polarization, "p=3&p=4", r"Polarization\.p is given twice"),
        (Polarization, "horizn=3", "unknown field of Polarization 'horizn', did you mean 'horizon'"),
        (Polarization, "horizon=soon", r"Polarization\.horizon must be a valid number, got 'soon'"),
        (Polarization, "horizon=1e999", r"Polarization\.horizon must be a finite number"),
        (Polarization, "u=1,2", r"u must have p = 3 numbers, got 2"),
        (Polarization, "u=1,2,x", r"Polarization\.u\.2 must be a valid number, got 'x'"),
        (Polarization, "map=sofmax", "unknown map 'sofmax', did you mean 'softmax'"),
        (Polarization, "map=softpick", "unknown map 'softpick'"),  # its flow takes half a minute
        (Polarization, "map=relu_norm", r"divides by zero"),
        (Polarization, "optimizer=gd&horizon=9", r"horizon must be at most 5\.5 .*, got 9"),
        (Polarization, "loss=hinge", "unknown loss 'hinge', known: .*logistic"),
        (Attention, "scores=1", r"Attention\.scores"),
        (Attention, "scores=", r"Attention\.scores"),
        (Probe, "tokens=65", r"Probe\.tokens must be less than or equal to 64, got 65"),
        (Specialization, "heads=9", r"Specialization\.heads must be less than or equal to 8, got 9"),
        (Specialization, "at=0.5", r"Specialization\.at must be a valid integer, got 0\.5"),
        (Specialization, "x=" + "1" * 3000, "at most 2000 characters"),
    ],
)
def test_a_bad_query_string_names_field_value_and_what_is_expected(page, query, message):
    with pytest.raises(SpecError) as refused:
        page.from_query(query)
    assert re.search(message, str(refused.value)), str(refused.value)


def test_defaults_are_left_out_or_given_alike():
    assert Polarization.from_query("") == Polarization()
    assert Polarization.from_query("?horizon=5") == Polarization()
