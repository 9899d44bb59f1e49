#!/usr/bin/env python3
"""Makes tests/model/parity/: tiny random checkpoints and the logits Hugging Face transformers gives.

Each case is one folder with hf/ (config.json, model.safetensors), model.gguf and expected.json
(prompt, rows, logits of those rows). Needs: torch, transformers >= 5, safetensors, gguf, tokenizers.
Usage: make_parity_fixtures.py [target folder]
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

PROMPT = [3, 17, 42, 5, 60, 1, 33, 33, 8, 51, 20, 11]
ROWS = [0, 3, 7, 11]
SHAPE = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=48, max_position_embeddings=128, rms_norm_eps=1e-5,
             bos_token_id=None, eos_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LINEAR = dict(rope_type="linear", rope_theta=5000.0, factor=4.0)
PLAIN = dict(rope_type="default", rope_theta=10000.0)

CASES = {
    "llama": (LlamaConfig, LlamaForCausalLM, torch.float32, dict(rope_parameters=PLAIN, tie_word_embeddings=False)),
    "llama_llama3": (LlamaConfig, LlamaForCausalLM, torch.bfloat16,
                     dict(rope_parameters=LLAMA3, tie_word_embeddings=True)),
    "llama_linear": (LlamaConfig, LlamaForCausalLM, torch.float16,
                     dict(rope_parameters=LINEAR, tie_word_embeddings=False, attention_bias=True)),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, torch.float32, dict(rope_parameters=PLAIN, tie_word_embeddings=False)),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, torch.bfloat16,
              dict(rope_parameters=PLAIN, tie_word_embeddings=True, head_dim=16, vocab_size=264)),
}
STEMS = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def randomise(model, dtype):
    """Gives every parameter, norms and biases included, values that `dtype` holds exactly."""
    generator = torch.Generator().manual_seed(7)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        value = 1 + 0.2 * noise if "norm" in name else 0.3 * noise
        p.data.copy_(value.to(dtype).float())


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem in TOP:
        return f"{TOP[stem]}.{kind}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{STEMS[rest]}.{kind}"


def permute(w, heads):
    """Half-rotation rows to the interleaved pairs that GGUF llama files hold."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def add_tensor(writer, name, tensor, dtype):
    if tensor.ndim == 1 or dtype == torch.float32:
        writer.add_tensor(name, tensor.float().contiguous().numpy())
    elif dtype == torch.float16:
        writer.add_tensor(name, tensor.half().contiguous().numpy())
    else:
        bits = tensor.bfloat16().contiguous().view(torch.int16).numpy().view(np.uint8)
        writer.add_tensor(name, bits, raw_dtype=gguf.GGMLQuantizationType.BF16)


def byte_tokens():
    """The byte-level alphabet of GPT-2, in byte order."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    extra = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(extra)) for b in range(256)]


MERGES = ["t h", "th e", "Ġ the", "i n"]
SPECIALS = ["<|begin|>", "<|end|>"]
TEMPLATE = ("{% for m in messages %}<|begin|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|begin|>assistant\n{% endif %}")


def write_hf_tokenizer(folder):
    vocab = byte_tokens() + [m.replace(" ", "") for m in MERGES]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": len(vocab) + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, s in enumerate(SPECIALS)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(vocab)}, "merges": MERGES},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"eos_token": "<|end|>", "chat_template": [{"name": "default", "template": TEMPLATE}]}))


def write_gguf_tokenizer(writer, vocab_size):
    tokens = byte_tokens() + [m.replace(" ", "") for m in MERGES] + SPECIALS
    types = [1] * (len(tokens) - len(SPECIALS)) + [3] * len(SPECIALS)
    unused = vocab_size - len(tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens + [f"[PAD{i}]" for i in range(unused)])
    writer.add_token_types(types + [5] * unused)
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(tokens.index("<|end|>"))
    writer.add_chat_template(TEMPLATE)


def write_gguf(path, config, tensors, dtype, inv_freq):
    arch = config.model_type
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"Tiny {arch}")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(head_dim)
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "llama3":
        plain = 1.0 / rope["rope_theta"] ** (torch.arange(0, head_dim, 2).float() / head_dim)
        writer.add_tensor("rope_freqs.weight", (plain / inv_freq).numpy())
    if config.vocab_size > 64:
        write_gguf_tokenizer(writer, config.vocab_size)
    for name, tensor in tensors.items():
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            tensor = permute(tensor, heads if "q_proj" in name else kv_heads)
        add_tensor(writer, gguf_name(name), tensor, dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def old_spelling(config):
    """config.json as transformers 4 wrote it."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope | {"type": rope["rope_type"]} if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype", "float32")
    return config


def make_case(target, name):
    config_class, model_class, dtype, options = CASES[name]
    config = config_class(**(SHAPE | options))
    model = model_class(config).float().eval()
    randomise(model, dtype)
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT])).logits[0, ROWS].double()
    folder = target / name
    (folder / "hf").mkdir(parents=True, exist_ok=True)
    tensors = {n: p.data for n, p in model.named_parameters()}
    save_file({n: t.to(dtype).contiguous() for n, t in tensors.items()}, folder / "hf/model.safetensors",
              metadata={"format": "pt"})
    (folder / "hf/model.safetensors").chmod(0o644)
    plain = json.loads(config.to_json_string(use_diff=True))
    plain["architectures"] = [model_class.__name__]
    if name == "llama_linear":
        plain = old_spelling(plain)
    (folder / "hf/config.json").write_text(json.dumps(plain, indent=1) + "\n")
    if config.vocab_size > 64:
        write_hf_tokenizer(folder / "hf")
    write_gguf(folder / "model.gguf", config, tensors, dtype, model.model.rotary_emb.inv_freq)
    (folder / "expected.json").write_text(json.dumps(
        {"prompt": PROMPT, "rows": ROWS, "logits": [[float(f"{x:.9g}") for x in row] for row in logits.tolist()]}))


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "model" / "parity"
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    torch.manual_seed(0)
    for name in CASES:
        make_case(target, name)


if __name__ == "__main__":
    main()
