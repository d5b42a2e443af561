"""A small Llama as a GGUF file, written tensor by tensor."""

from pathlib import Path

import numpy as np

CHARACTERS = [*map(chr, range(97, 123)), *map(chr, range(65, 91)), "0", "1", "2", "th"]
NAMES = {
    "model.layers.": "blk.",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}


def write_gguf(model, path: Path, bos: bool = False, leave_out: str = "") -> Path:
    """The model with float32 tensors, without those whose GGUF name contains `leave_out`."""
    from gguf import GGUFWriter

    writer, config = GGUFWriter(path, "llama"), model.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    _write_vocabulary(writer, bos)
    for name, array in gguf_arrays(model).items():
        if not (leave_out and leave_out in name):
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_vocabulary(writer, bos: bool) -> None:
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*special, *CHARACTERS])
    writer.add_token_types([3] * len(special) + [1] * len(CHARACTERS))
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(bos)


def gguf_arrays(model) -> dict[str, np.ndarray]:
    """The weights under the names and in the order of rows that a GGUF has."""
    config, arrays = model.config, {}
    for name, tensor in model.state_dict().items():
        array = tensor.numpy()
        if "q_proj" in name:
            array = _interleaved(array, config.num_attention_heads)
        if "k_proj" in name:
            array = _interleaved(array, config.num_key_value_heads)
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        if name != "output.weight" or not config.tie_word_embeddings:
            arrays[name] = np.ascontiguousarray(array)
    return arrays


def _interleaved(array: np.ndarray, heads: int) -> np.ndarray:
    """Rotary pairs side by side, as llama.cpp has them; transformers keeps the halves apart."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
