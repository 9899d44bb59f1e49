#!/usr/bin/env python3
"""Writes tests/text/data/tokenizer_cases.json: small tokenizers, one per component or option that the
large ones do not use, with the ids and the decoded text the Python package `tokenizers` gives for some texts.

Usage: make_tokenizer_cases.py [OUTPUT]
"""
import json
import pathlib
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors)

BAR = "\u2581"
TEXTS = ["", " ", "hello", " hello", "hello  hello", "he 12 llo", "hello.he,-llo", "a1b22c333", "<s>hello</s>", "<s> hello </s> he",
         "hello<m>", "he <m> llo", "xin y in", "in", "in-in inin", "\n he\n\nllo \n", "'s he's", "é e\u0301", "ﬁx", "...,", "h\u00a0e",
         BAR + "he", "x" + BAR + BAR + "y", "<s><s>", "  <m>  ", "h.e.l.l.o", "HELLO"]
PIECES = ["he", "ll", "llo", "hello", "in", "xin", "12"]


def merges_of(vocabulary):
    """Every split of a piece into two known ones, in the order of the pieces."""
    return [(p[:i], p[i:]) for p in vocabulary if len(p) > 1 for i in range(1, len(p))
            if p[:i] in vocabulary and p[i:] in vocabulary]


def byte_level(**options):
    alphabet = sorted({c for t in TEXTS + ["\ufb01fi"] for c in pre_tokenizers.ByteLevel(
        add_prefix_space=True, use_regex=False).pre_tokenize_str(t + " ")[0][0]})
    tokens = alphabet + PIECES[:1] + ["ll", "llo", "hello", "\u0120he", "\u0120hello", "in", "xin", "12"]
    tokens = list(dict.fromkeys(tokens))
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges_of(tokens), **options))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def barred(**options):
    letters = sorted({c for t in TEXTS for c in t if c.isascii() and c.isalpha()} | {BAR, "."})
    pieces = [f"<0x{b:02X}>" for b in range(256)] if options.get("byte_fallback") else []
    tokens = list(dict.fromkeys(["<unk>"] + pieces + letters + PIECES + [BAR + "he", BAR + "hello"]))
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges_of(tokens), unk_token="<unk>", **options))
    tokenizer.decoder = decoders.Sequence([decoders.Replace(BAR, " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def cases():
    def case(name, tokenizer, **parts):
        for part, value in parts.items():
            setattr(tokenizer, part, value)
        return name, tokenizer

    pre, norm = pre_tokenizers, normalizers
    plain = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    yield case("ByteLevel", byte_level())
    yield case("ByteLevel with prefix space", byte_level(), pre_tokenizer=pre.ByteLevel(add_prefix_space=True))
    yield case("ByteLevel without regex", byte_level(), pre_tokenizer=plain)
    yield case("ignore_merges", byte_level(ignore_merges=True))
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield case(f"Split {behavior} invert={invert}", byte_level(), pre_tokenizer=pre.Sequence(
                [pre.Split(Regex("[.,l]|\\s"), behavior, invert), plain]))
        yield case(f"Split string {behavior}", byte_level(), pre_tokenizer=pre.Sequence([pre.Split("l", behavior), plain]))
        yield case(f"Punctuation {behavior}", byte_level(), pre_tokenizer=pre.Sequence([pre.Punctuation(behavior), plain]))
    for individual in (False, True):
        yield case(f"Digits {individual}", byte_level(), pre_tokenizer=pre.Sequence([pre.Digits(individual), plain]))
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            space = pre.Metaspace(BAR, scheme, split)
            yield case(f"Metaspace {scheme} split={split}", barred(), pre_tokenizer=space,
                       decoder=decoders.Metaspace(BAR, scheme, split))
    yield case("unknown characters", barred(), normalizer=norm.Replace(" ", BAR))
    yield case("fused unknown characters", barred(fuse_unk=True), normalizer=norm.Replace(" ", BAR))
    yield case("byte fallback", barred(byte_fallback=True), normalizer=norm.Sequence([norm.Prepend(BAR), norm.Replace(" ", BAR)]))
    for name in ("NFC", "NFD", "NFKC", "NFKD"):
        yield case(name, byte_level(), normalizer=getattr(norm, name)())
    yield case("Replace regex", byte_level(), normalizer=norm.Replace(Regex("\\s+|l"), " "))
    yield case("template", with_added(byte_level()), post_processor=processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]))
    yield case("added tokens", with_added(byte_level()))
    for option in ("lstrip", "rstrip", "single_word", "normalized"):
        yield case(f"added tokens {option}", with_added(byte_level(), **{option: True}))
    yield case("normalized added tokens", with_added(barred(byte_fallback=True), normalized=True),
               normalizer=norm.Sequence([norm.Prepend(BAR), norm.Replace(" ", BAR)]))


def with_added(tokenizer, **options):
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<m>", **{"normalized": False, **options}),
                          AddedToken("in", **{"normalized": False, **options})])
    return tokenizer


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "text" / "data" / "tokenizer_cases.json"
    out = []
    for name, tokenizer in cases():
        if name == "template":
            ids = [tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")]
            tokenizer.post_processor = processors.TemplateProcessing(
                single="<s> $A </s>", special_tokens=[("<s>", ids[0]), ("</s>", ids[1])])
        texts = []
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=True).ids
            texts.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids)})
        out.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "texts": texts})
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    path.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
    print(len(out), "tokenizers", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
