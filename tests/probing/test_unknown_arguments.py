"""Arguments that a model hands to attention and that are not known here are refused by name, never dropped."""

import pytest
import torch
import transformers as tf

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming import call

TOKENS = torch.arange(1, 13)[None]


def sparse():
    """A tiny model with a sparse index: two keys a query."""
    sizes = {"hidden_size": 32, "intermediate_size": 32, "moe_intermediate_size": 16, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8}
    low = {"v_head_dim": 8, "kv_lora_rank": 8, "q_lora_rank": 8, "n_routed_experts": 4, "num_experts_per_tok": 2}
    index = {"index_topk": 2, "index_head_dim": 16, "index_n_heads": 2, "n_group": 1, "topk_group": 1}
    config = tf.DeepseekV32Config(vocab_size=50, **sizes, **heads, **low, **index)
    torch.manual_seed(0)
    return tf.DeepseekV32ForCausalLM(config).eval()


def test_a_sparse_index_is_honoured():
    model = sparse()
    with torch.no_grad():
        before = model(TOKENS).logits
        with sl.probing.watch(model) as w:
            assert torch.equal(model(TOKENS).logits, before)
        with sl.probing.watch(model, eager=True) as eager:
            model(TOKENS)
        with sl.probing.swapped(model, "softmax") as swap:
            torch.testing.assert_close(model(TOKENS).logits, before)
        with sl.probing.swapped(model, "softmax1", bias=0.0):
            assert (model(TOKENS).logits - before).abs().max() > 0.01, "the map is swapped in"
        assert torch.equal(model(TOKENS).logits, before)
    assert w.logits["relative"] == 0
    assert swap.logits["relative"] < 1e-5
    assert w.report()["effective_keys"].max() <= 2 + 1e-5, "two keys a query"
    columns = ["sparsity", "sink", "entropy"]
    assert (w.report()[columns] - eager.report()[columns]).abs().max().max() < 1e-6


def test_without_torchs_own_attention_a_sparse_index_is_refused_by_name(monkeypatch):
    model = sparse()
    monkeypatch.setattr(type(model), "_supports_sdpa", False)
    model.set_attn_implementation("eager")
    with pytest.raises(SpecError, match="gives attention the argument 'indices'"), sl.probing.watch(model):
        model(TOKENS)


@pytest.mark.parametrize("name", ["indices", "block_indices", "cu_seq_lens_q", "head_mask"])
def test_only_what_changes_no_weight_is_let_through(name):
    q = torch.zeros(1, 2, 3, 4)
    assert call.read(torch.nn.Identity(), q, q, q, None, sliding_window=2, **{name: None}).shape == (1, 2, 3, 3)
    with pytest.raises(SpecError, match=f"Identity gives attention the argument '{name}'"):
        call.read(torch.nn.Identity(), q, q, q, None, **{name: torch.ones(1)})
