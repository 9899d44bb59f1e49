#!/usr/bin/env python3
"""Quantise a GGUF with llama.cpp: the types that no Python writer makes, for compare_llama_cpp.py.

    V/bin/python tests/bench/quantise_gguf.py FROM.gguf TYPE TO.gguf

FROM is a file in BF16, F16 or F32. TYPE is llama.cpp's name, in any case: Q4_K_M, Q6_K, IQ4_XS, ... Rows that are no
multiple of a type's block (256 for the K types) get the type that llama.cpp falls back to.
"""
import argparse
import os

import llama_cpp


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FROM.gguf")
    parser.add_argument("type", metavar="TYPE")
    parser.add_argument("target", metavar="TO.gguf")
    options = parser.parse_args()
    file_type = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{options.type.upper()}", None)
    if file_type is None:
        raise SystemExit(f"llama.cpp {llama_cpp.__version__} has no type {options.type}")
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = file_type
    parameters.nthread = len(os.sched_getaffinity(0))
    if llama_cpp.llama_model_quantize(options.source.encode(), options.target.encode(), parameters) != 0:
        raise SystemExit(f"{options.source} could not be quantised to {options.type}")


if __name__ == "__main__":
    main()
