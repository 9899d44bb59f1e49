#!/usr/bin/env python3
"""Writes the small seed files of the GGUF and safetensors fuzzers, tests/fuzz/seeds/{gguf,safetensors}.

Needs: pip install gguf safetensors numpy. Run from anywhere; the output is deterministic.
"""
import json
import struct
from pathlib import Path

import numpy as np
from gguf import GGUFWriter
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from safetensors.numpy import save

SEEDS = Path(__file__).resolve().parents[1] / "fuzz" / "seeds"


def write_gguf(name, fill):
    path = SEEDS / "gguf" / name
    writer = GGUFWriter(path, "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def vocabulary(writer):
    tokens = [b"<s>", b"</s>", "Ġthe".encode(), b"a"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0, -1.0, -2.0, -3.0])
    writer.add_token_types([3, 3, 1, 1])
    writer.add_token_merges(["Ġ t", "h e"])
    writer.add_bos_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")


def values(writer):
    writer.add_uint8("a.u8", 1)
    writer.add_int8("a.i8", -1)
    writer.add_uint16("a.u16", 2)
    writer.add_int16("a.i16", -2)
    writer.add_int32("a.i32", -3)
    writer.add_uint64("a.u64", 4)
    writer.add_int64("a.i64", -4)
    writer.add_float32("a.f32", 0.5)
    writer.add_float64("a.f64", 0.25)
    writer.add_bool("a.bool", False)
    writer.add_array("a.ints", [1, 2, 3])
    writer.add_custom_alignment(64)


def every_type(writer):
    for dtype in (T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K,
                  T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.IQ4_XS, T.MXFP4):
        block, size = GGML_QUANT_SIZES[dtype]
        data = np.full((2, size * (4 if block == 1 else 1)), 7, np.uint8)
        writer.add_tensor(f"t.{dtype.name}", data, raw_dtype=dtype)


def shard(writer):
    writer.add_uint16("split.no", 0)
    writer.add_uint16("split.count", 2)
    writer.add_int32("split.tensors.count", 1)
    writer.add_tensor("t", np.ones((2, 2), np.float32))


def write_safetensors(name, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (SEEDS / "safetensors" / name).write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    for folder in ("gguf", "safetensors"):
        (SEEDS / folder).mkdir(parents=True, exist_ok=True)
    write_gguf("vocabulary", vocabulary)
    write_gguf("values", values)
    write_gguf("every_type", every_type)
    write_gguf("shard", shard)
    arrays = {"a": np.ones((2, 3), np.float32), "b": np.ones(4, np.float16)}
    (SEEDS / "safetensors" / "two_tensors").write_bytes(save(arrays, {"format": "pt"}))
    entry = {"dtype": "BF16", "shape": [0, 2], "data_offsets": [0, 0]}
    write_safetensors("empty_tensors", {"x": entry, "y": entry})
    write_safetensors("scalar", {"s": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}, b"\0" * 4)
    write_safetensors("nested", b'{"a":' + b"[" * 70)
    write_safetensors("wrapping_shape", {"w": {"dtype": "F32", "shape": [2**33, 2**31 + 1],
                                               "data_offsets": [0, 16]}}, b"\0" * 16)


if __name__ == "__main__":
    main()
