"""Texts and the sequences cut from them."""

import hashlib
import io
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softmaxlab.errors import SpecError
from softmaxlab.probing.heads import probe
from softmaxlab.probing.inference import longest
from softmaxlab.probing.text import BUILT_IN, batches, sequences, starts, texts, token_0
from tests.probing import families
from tests.probing.checkpoints import TEXT, WORDS, tokenizer

BOS, EOS, PAD = 1, 2, 3
ENOUGH_WORDS = {"python": 40_000, "licence": 1_500, "kjv": 30_000}  # of any Python we run on


def stdin(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


# texts


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_texts_are_prose_with_a_name_and_a_hash(name):
    corpus = texts(name)
    (text,) = corpus
    assert len(text.split()) > ENOUGH_WORDS[name]
    assert " the " in text
    assert (corpus.name, corpus.sha256) == (name, hashlib.sha256(text.encode()).hexdigest())
    assert texts(name) == corpus


def test_no_paragraph_of_the_default_text_comes_twice():
    paragraphs = texts().texts[0].split("\n\n")
    assert len(paragraphs) == len(set(paragraphs)) > 1000


def test_files_and_stdin(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes("one\r\n\r\n\r\ntwo é\n".encode())
    corpus = texts(tmp_path / "a.txt")
    assert list(corpus) == ["one\r\n\r\n\r\ntwo é\n"]
    assert corpus.paragraphs() == ("one", "two é")
    assert corpus.sha256 == hashlib.sha256((tmp_path / "a.txt").read_bytes()).hexdigest()
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n\n{"text": "two", "n": 2}\n')
    assert list(texts(str(tmp_path / "b.jsonl"))) == ["one", "two"]
    (tmp_path / "c.jsonl").write_text('\ufeff{"body": "one"}')
    assert list(texts(tmp_path / "c.jsonl", field="body")) == ["one"]
    stdin(monkeypatch, b"piped")
    piped = texts("-")
    assert (piped.name, piped.texts) == ("stdin", ("piped",))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", b" \n\n ", "is empty"),
        ("empty.jsonl", b"\n", "is empty"),
        ("latin.txt", b"caf\xe9", "is not UTF-8"),
        ("a.jsonl", b'{"text": "a"}\n{', "line 2 is not JSON"),
        ("a.jsonl", b'{"body": "a"}', "line 1 has no text in 'text'"),
        ("a.jsonl", b'{"text": 3}', "line 1 has no text in 'text'"),
        ("a.jsonl", b"[1]", "line 1 has no text in 'text'"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SpecError, match=message):
        texts(tmp_path / name)


def test_bad_sources(tmp_path, monkeypatch):
    with pytest.raises(SpecError, match="'pyton' is neither a file nor a built-in text, did you mean 'python'"):
        texts("pyton")
    with pytest.raises(SpecError, match="is a folder"):
        texts(tmp_path)
    stdin(monkeypatch, b"")
    with pytest.raises(SpecError, match="text 'stdin' is empty"):
        texts("-")


# sequences


def cut(bos="auto", words=None, text=TEXT, length=10, samples=5, seed=0):
    return sequences(words or tokenizer(), [text], length, samples, bos=bos, seed=seed)


def test_sequences_are_pieces_of_the_text():
    ids = tokenizer()(TEXT, verbose=False).input_ids
    pieces = [tuple(ids[i : i + 10]) for i in range(len(ids))]
    found = cut()
    assert [(len(s), s.dtype, s.ndim) for s in found] == [(10, torch.long, 1)] * 5
    assert all(tuple(s.tolist()) in pieces for s in found)
    assert torch.equal(torch.stack(found), torch.stack(cut()))
    assert not torch.equal(torch.stack(found), torch.stack(cut(seed=1)))


def test_texts_are_joined_and_a_lone_text_is_one():
    halves = TEXT[: len(TEXT) // 2].rsplit(" ", 1)[0], "w1 w2"
    assert torch.equal(sequences(tokenizer(), ["w1 w2", "w3"], 3, 1)[0], torch.tensor([5, 6, 7]))
    assert len(sequences(tokenizer(), halves, 20, 2)) == 2
    assert torch.equal(sequences(tokenizer(), TEXT, 10, 5)[0], cut()[0])


@given(st.integers(1, 20), st.integers(1, 8), st.integers(0, 30), st.integers(0, 2**40))
def test_pieces_never_overlap_and_stay_inside(body, samples, free, seed):
    tokens = body * samples + free
    first = starts(tokens, body, samples, seed)
    ends = [start + body for start in first]
    assert first[0] >= 0
    assert ends[-1] <= tokens
    assert all(end <= start for end, start in zip(ends, first[1:]))


def test_every_placement_is_equally_likely():
    # 2 pieces of 2 in 6 tokens: C(4, 2) = 6 placements
    seeds = 3000
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(seeds):
        placement = tuple(starts(6, 2, 2, seed))
        counts[placement] = counts.get(placement, 0) + 1
    assert len(counts) == 6
    deviation = (seeds * (1 / 6) * (5 / 6)) ** 0.5
    assert all(abs(count - seeds / 6) < 4 * deviation for count in counts.values())


def test_bos():
    adds, has, lacks = tokenizer(bos=True), tokenizer(), tokenizer(has_bos=False)
    assert {int(s[0]) for s in cut(words=adds)} == {BOS}
    assert {int(s[0]) for s in cut("yes", adds)} == {BOS}
    assert BOS not in torch.stack(cut("no", adds))
    assert BOS not in torch.stack(cut("auto", has))
    both = torch.stack(cut("yes", has))
    assert both.shape == (5, 10)
    assert (both[:, 0] == BOS).all()
    assert BOS not in both[:, 1:]
    with pytest.raises(SpecError, match="bos 'yes': the tokenizer has no BOS token"):
        cut("yes", lacks)
    with pytest.raises(SpecError, match="unknown bos 'ys', did you mean 'yes'"):
        cut("ys")


def test_what_comes_after_a_text_stays_last():
    from tokenizers import processors

    words = tokenizer()
    words._tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", BOS), ("</s>", EOS)]
    )
    found = torch.stack(cut(words=words))
    assert found.shape == (5, 10)
    assert (found[:, 0] == BOS).all()
    assert (found[:, -1] == EOS).all()
    assert (found[:, 1:-1] > PAD).all()


def test_token_0_is_told():
    assert token_0(tokenizer(bos=True)) == "token 0 is '<s>', as the tokenizer has it"
    assert token_0(tokenizer(), "yes") == "token 0 is '<s>', put first on request"
    assert "adds no BOS (it has '<s>'; --bos yes, in Python bos='yes', puts it first)" in token_0(tokenizer())
    assert "adds no BOS (it has none)" in token_0(tokenizer(has_bos=False))
    assert "'<s>', which the tokenizer puts first, was left out on request" in token_0(tokenizer(bos=True), "no")


def test_text_shorter_than_asked():
    assert len(cut(text="w1 w2 w3 w4", length=2, samples=2)) == 2
    with pytest.raises(SpecError, match="the text has 4 tokens, 2 sequences of 3 need 6"):
        cut(text="w1 w2 w3 w4", length=3, samples=2)
    with pytest.raises(SpecError, match="the text has 0 tokens"):
        cut(text=" ")
    with pytest.raises(SpecError, match="length 1 leaves no room for text beside 1 special"):
        cut("yes", length=1)


@pytest.mark.parametrize("bad", [{"length": 0}, {"samples": 0}, {"length": 2.5}, {"samples": True}, {"seed": -1}])
def test_bad_counts(bad):
    with pytest.raises(SpecError, match=f"{next(iter(bad))} must be a whole number"):
        cut(**bad)


# batches


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("pad", "filler"), [(True, PAD), (False, EOS)])
def test_batches_are_padded_on_the_right(side, pad, filler):
    words = tokenizer(pad=pad, side=side)
    first, second = batches(words, ["w1 w2 w3 w4 w5", "w1", "w2"], max_length=3, batch_size=2)
    assert first["input_ids"].tolist() == [[5, 6, 7], [5, filler, filler]]
    assert first["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert second["input_ids"].tolist() == [[6]]
    assert words.pad_token == ("[PAD]" if pad else None)  # the tokenizer is left as it was


def test_padding_equals_the_tokenizers_own():
    words = tokenizer(bos=True, pad=True, side="right")
    some = [" ".join(WORDS[4 : 4 + n]) for n in (3, 9, 1)]
    (ours,) = batches(words, some, max_length=6, batch_size=8)
    theirs = words(some, padding=True, truncation=True, max_length=6, return_tensors="pt")
    assert torch.equal(ours["input_ids"], theirs["input_ids"])
    assert torch.equal(ours["attention_mask"], theirs["attention_mask"])


def test_bad_batches():
    with pytest.raises(SpecError, match="there are no texts"):
        batches(tokenizer(), [], 4, 4)
    with pytest.raises(SpecError, match="text number 1 has no tokens"):
        batches(tokenizer(), ["w1", " "], 4, 4)
    with pytest.raises(SpecError, match="batch_size must be"):
        batches(tokenizer(), ["w1"], 4, 0)
    with pytest.raises(SpecError, match="max_length must be"):
        batches(tokenizer(), ["w1"], 0, 4)


def test_a_text_longer_than_the_model_is_refused():
    words = tokenizer(bos=True, pad=True)
    model = families.build("gpt2")
    limit = longest(model)
    assert limit == model.config.n_positions
    text = " ".join(["w1"] * (limit + 5))
    with pytest.raises(SpecError, match=f"the model has {limit} positions: give max_length={limit}"):
        probe(model, words, [text], max_length=limit + 3)
    assert len(probe(model, words, [text], max_length=limit)) == families.LAYERS * families.HEADS
