#!/usr/bin/env python3
"""Writes the expected tokens of tests/text/data/tokenizer_corpus.bin: tests/text/data/NAME.golden.

One line per record of the corpus: a hash of its ids (FNV-1a, 64 bits over int32 little-endian, folded
to 32) and, for every 57th record, the ids. A last line is the same for long_line(), a megabyte without a
space that the test makes for itself. The ids are those of the Python package `tokenizers`
without special tokens added. That package takes no broken UTF-8, so for such records the expectation is
composed: byte-level models encode the valid stretches one by one and run the bytes between them through
the same merges; models with byte fallback see a stand-in character per broken byte, whose fallback
tokens are exchanged for the byte's.

Usage: make_tokenizer_golden.py TOKENIZERS_FOLDER STARTER_GGUF
"""
import pathlib
import sys

import gguf
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

DATA = pathlib.Path(__file__).resolve().parent.parent / "text" / "data"
FOLDERS = ["deepseek_v3", "gemma3", "llama2", "llama3_1", "qwen3"]
FULL_EVERY = 57
STAND_IN = 0x10FF00  # + byte; a private character in no vocabulary


def read_corpus():
    data = (DATA / "tokenizer_corpus.bin").read_bytes()
    records, pos = [], 0
    while pos < len(data):
        end = data.index(b"\n", pos)
        size = int(data[pos:end])
        records.append(data[end + 1:end + 1 + size])
        pos = end + 2 + size
    return records


def long_line():
    x, out = 1, bytearray()
    for _ in range(1 << 20):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        out += b"etaoinshrdlu"[(x >> 16) % 12:][:1]
    return bytes(out)


def starter(path):
    """SmolLM2's tokenizer, from the vocabulary and merges in its GGUF file."""
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = tokenizers.Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([t for t, kind in zip(tokens, types) if kind == gguf.TokenType.CONTROL])
    return tokenizer


def byte_alphabet():
    printable = [b for b in range(256) if 0x21 <= b <= 0x7E or (b >= 0xA1 and b != 0xAD)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + i) for i, b in enumerate(others)}


def stretches(record):
    """(text, None) or (None, bytes), alternating."""
    out = []
    for c in record.decode("utf-8", errors="surrogateescape"):
        broken = 0xDC80 <= ord(c) <= 0xDCFF
        if not out or (out[-1][0] is None) != broken:
            out.append((None, b"") if broken else ("", None))
        text, raw = out[-1]
        out[-1] = (None, raw + bytes([ord(c) - 0xDC00])) if broken else (text + c, None)
    return out


def encode_broken(tokenizer, vocabulary, record):
    if "<0x00>" not in vocabulary:
        alphabet = byte_alphabet()
        ids = []
        for text, raw in stretches(record):
            if raw is None:
                ids += tokenizer.encode(text, add_special_tokens=False).ids
            else:
                ids += [t.id for t in tokenizer.model.tokenize("".join(alphabet[b] for b in raw))]
        return ids
    text = "".join(text if raw is None else "".join(chr(STAND_IN + b) for b in raw)
                   for text, raw in stretches(record))
    byte_of = {vocabulary[f"<0x{b:02X}>"]: b for b in range(256)}
    assert not any(chr(STAND_IN + b) in vocabulary for b in range(256))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    out, pos = [], 0
    while pos < len(ids):
        stand_in = None
        if all(i in byte_of for i in ids[pos:pos + 4]) and len(ids) >= pos + 4:
            raw = bytes(byte_of[i] for i in ids[pos:pos + 4])
            if raw[:2] == b"\xf4\x8f":
                stand_in = ord(raw.decode()) - STAND_IN
        if stand_in is not None and 0 <= stand_in < 256:
            out.append(vocabulary[f"<0x{stand_in:02X}>"])
            pos += 4
        else:
            out.append(ids[pos])
            pos += 1
    return out


def encode(tokenizer, vocabulary, record):
    try:
        return tokenizer.encode(record.decode("utf-8"), add_special_tokens=False).ids
    except UnicodeDecodeError:
        return encode_broken(tokenizer, vocabulary, record)


def hash_ids(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        for b in i.to_bytes(4, "little"):
            h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return (h ^ (h >> 32)) & 0xFFFFFFFF


def main():
    folder, starter_path = pathlib.Path(sys.argv[1]), sys.argv[2]
    records = read_corpus()
    all_tokenizers = {"smollm2": starter(starter_path)}
    for name in FOLDERS:
        all_tokenizers[name] = tokenizers.Tokenizer.from_file(str(folder / name / "tokenizer.json"))
    for name, tokenizer in all_tokenizers.items():
        vocabulary = tokenizer.get_vocab()
        out = []
        for i, record in enumerate(records + [long_line()]):
            ids = encode(tokenizer, vocabulary, record)
            full = " " + " ".join(map(str, ids)) if i % FULL_EVERY == 0 and i < len(records) else ""
            out.append(f"{hash_ids(ids):08x}{full}\n")
        (DATA / f"{name}.golden").write_text("".join(out))
        print(name, len(out), "records")


if __name__ == "__main__":
    main()
