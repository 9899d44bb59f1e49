#!/usr/bin/env python3
"""Writes tests/kernels/data/dequant_<type>.{blocks,f32}: encoded blocks of every supported GGUF
type, and the float32 values the Python gguf package decodes them to (little endian).

Needs: pip install gguf numpy. Run from anywhere; the output is deterministic.
"""
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

OUT = Path(__file__).resolve().parents[1] / "kernels" / "data"

# Byte offsets of the half-precision scales inside a block.
SCALES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [],
}
# Scales worth a block of their own: zeros, the smallest subnormal, the largest subnormal, the
# largest finite, one and its negative, a third.
EDGE_SCALES = [0.0, -0.0, 2.0**-24, 1023 * 2.0**-24, 65504.0, 1.0, -1.0, 1 / 3]


def put_scales(block, offsets, values):
    for offset, value in zip(offsets, values):
        block[offset:offset + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)


def quantised_blocks(qtype, rng):
    size = GGML_QUANT_SIZES[qtype][1]
    blocks = []
    for i, value in enumerate(EDGE_SCALES):
        block = rng.integers(0, 256, size, dtype=np.uint8)
        if qtype == T.MXFP4:  # exponents at both ends and around one
            block[0] = [0, 1, 2, 3, 127, 128, 253, 254][i]
        put_scales(block, SCALES[qtype], [value, EDGE_SCALES[(i + 3) % len(EDGE_SCALES)]])
        blocks.append(block)
    for fill in (0x00, 0x80, 0x0F) if qtype == T.MXFP4 else (0x00, 0xFF, 0x80, 0x0F):
        block = np.full(size, fill, np.uint8)
        put_scales(block, SCALES[qtype], [0.0123, -0.45])
        blocks.append(block)
    for _ in range(2):
        block = rng.integers(0, 256, size, dtype=np.uint8)
        if qtype == T.MXFP4:
            block[0] = rng.integers(115, 125)
        put_scales(block, SCALES[qtype], rng.normal(0, 0.05, 2))
        blocks.append(block)
    return np.concatenate(blocks)


def plain_values(qtype, rng):
    if qtype == T.F32:
        values = np.concatenate([rng.normal(0, 1, 24).astype(np.float32),
                                 np.array([0, -0.0, 1e-45, -3.4e38, np.inf, -np.inf, np.nan, 1 / 3],
                                          np.float32)])
        return values.view(np.uint8)
    # Every sign and exponent, with mantissas at both ends and in the middle.
    bits = 7 if qtype == T.BF16 else 10
    tops = np.arange(1 << (16 - bits), dtype=np.uint32) << bits
    words = np.concatenate([tops | m for m in (0, 1, 1 << (bits - 1), (1 << bits) - 1)])
    return words.astype(np.uint16).view(np.uint8)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for qtype in [T.F32, T.F16, T.BF16, *SCALES]:
        rng = np.random.default_rng(int(qtype))
        quantised = qtype in SCALES
        encoded = quantised_blocks(qtype, rng) if quantised else plain_values(qtype, rng)
        source = encoded.view({T.F32: np.float32, T.F16: np.float16}.get(qtype, np.uint8))
        values = dequantize(source, qtype).astype("<f4")
        (OUT / f"dequant_{qtype.name}.blocks").write_bytes(encoded.tobytes())
        (OUT / f"dequant_{qtype.name}.f32").write_bytes(values.tobytes())


if __name__ == "__main__":
    main()
