"""Small checkpoints on disk, made in code: nothing is fetched."""

from pathlib import Path

import torch

from softmaxlab.probing.gguf import quiet

WORDS = ["[UNK]", "<s>", "</s>", "[PAD]", *(f"w{i}" for i in range(56))]
TEXT = " ".join(WORDS[4 + (7 * i) % 56] for i in range(1000))


def tokenizer(bos: bool = False, has_bos: bool = True, pad: bool = False, side: str = "right"):
    """One token a word; puts <s> first when `bos`."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if bos:
        plain.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    named = {"unk_token": "[UNK]", "eos_token": "</s>"}
    named |= {"bos_token": "<s>"} if has_bos else {}
    named |= {"pad_token": "[PAD]"} if pad else {}
    return PreTrainedTokenizerFast(tokenizer_object=plain, padding_side=side, model_max_length=64, **named)


def sizes() -> dict[str, int]:
    return {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def llama_config(**changes):
    from transformers import LlamaConfig

    config = {"num_key_value_heads": 2, "vocab_size": len(WORDS), "pad_token_id": None} | changes
    return LlamaConfig(**sizes(), **config)


def llama(**changes):
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(llama_config(**changes)).eval()


def saved(model, folder: Path, words=None, **options) -> Path:
    """The folder, with the model and a tokenizer."""
    with quiet():
        model.save_pretrained(folder, **options)
    (words or tokenizer()).save_pretrained(folder)
    return folder
