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


def test_a_sparse_index_is_refused_and_the_model_left_as_it_was():
    model = sparse()
    with torch.no_grad():
        before = model(TOKENS).logits
        for around in (sl.probing.watch(model), sl.probing.swapped(model, "softmax1", bias=0.0)):
            with pytest.raises(SpecError, match="DeepseekV32Attention gives attention the argument 'indices'"), around:
                model(TOKENS)
        assert torch.equal(model(TOKENS).logits, before)


@pytest.mark.parametrize("name", ["indices", "block_indices", "cu_seq_lens_q", "head_mask"])
def test_only_what_changes_no_weight_is_let_through(name):
    q = torch.zeros(1, 2, 3, 4)
    assert call.read(torch.nn.Identity(), q, q, q, None, sliding_window=2, **{name: None}).shape == (1, 2, 3, 3)
    with pytest.raises(SpecError, match=f"Identity gives attention the argument '{name}'"):
        call.read(torch.nn.Identity(), q, q, q, None, **{name: torch.ones(1)})
