#!/usr/bin/env python3
"""Makes tests/model/perplexity/starter.json: the perplexity of the starter model on text.txt beside it, in float32.

The GGUF's weights are dequantised with the gguf package and put into transformers' LlamaForCausalLM, so that nothing of
Quire's or llama.cpp's arithmetic takes part; llama.cpp only splits the text into tokens. Chunks and scored tokens are
those of engine/runner/perplexity.h. Needs: torch, transformers >= 5, gguf, llama-cpp-python.
Usage: make_perplexity_fixture.py SmolLM2-135M-Instruct.Q4_1.gguf [target folder]
"""
import json
import math
import pathlib
import sys

import gguf
import llama_cpp
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

CONTEXT, CHUNKS = 512, 14
LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def field(reader, name):
    return reader.fields[name].contents()


def halves(w, heads):
    """GGUF llama files hold rotated pairs side by side; transformers wants the two halves of a head."""
    return w.reshape(heads, w.shape[0] // heads // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def load(path):
    reader = gguf.GGUFReader(path)
    heads, kv_heads = field(reader, "llama.attention.head_count"), field(reader, "llama.attention.head_count_kv")
    state = {}
    for tensor in reader.tensors:
        values = np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        stem, kind = tensor.name.rsplit(".", 1)
        if stem in TOP:
            state[f"{TOP[stem]}.{kind}"] = torch.from_numpy(values)
            continue
        _, layer, name = stem.split(".")
        if name in ("attn_q", "attn_k"):
            values = halves(values, heads if name == "attn_q" else kv_heads)
        state[f"model.layers.{layer}.{LAYER[name]}.{kind}"] = torch.from_numpy(np.ascontiguousarray(values))
    config = LlamaConfig(
        vocab_size=state["model.embed_tokens.weight"].shape[0], hidden_size=field(reader, "llama.embedding_length"),
        num_hidden_layers=field(reader, "llama.block_count"), num_attention_heads=heads, num_key_value_heads=kv_heads,
        intermediate_size=field(reader, "llama.feed_forward_length"),
        max_position_embeddings=field(reader, "llama.context_length"),
        rms_norm_eps=field(reader, "llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": field(reader, "llama.rope.freq_base")},
        tie_word_embeddings="lm_head.weight" not in state)
    model = LlamaForCausalLM(config).float().eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model


def main():
    path = sys.argv[1]
    default = pathlib.Path(__file__).resolve().parent.parent / "model" / "perplexity"
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else default
    vocabulary = llama_cpp.Llama(path, vocab_only=True, verbose=False)
    tokens = vocabulary.tokenize((default / "text.txt").read_bytes(), add_bos=True, special=False)
    model = load(path)
    total, count = 0.0, 0
    for i in range(CHUNKS):
        chunk = torch.tensor(tokens[i * CONTEXT:(i + 1) * CONTEXT])
        with torch.no_grad():
            logits = model(chunk[None]).logits[0].double()
        first = CONTEXT // 2
        nll = torch.nn.functional.cross_entropy(logits[first:-1], chunk[first + 1:], reduction="sum")
        total, count = total + nll.item(), count + CONTEXT - first - 1
    (target / "starter.json").write_text(json.dumps(
        {"text_tokens": len(tokens), "context": CONTEXT, "chunks": CHUNKS, "scored_tokens": count,
         "perplexity": round(math.exp(total / count), 6)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
