#!/usr/bin/env python3
"""Writes the tokenizer tests' corpus: tests/text/data/tokenizer_corpus.bin.

The file is a run of records "LENGTH\n" + LENGTH bytes + "\n", so that a line may hold anything, line
breaks and broken UTF-8 included. Everything comes from a fixed seed and the tables below; characters
are restricted to Unicode 13, which every library involved knows.

Usage: make_tokenizer_corpus.py [OUTPUT]
"""
import pathlib
import random
import sys
import unicodedata

SEED = 20240607

# One plain sentence or two in each of twenty-four scripts.
SCRIPTS = {
    "Latin": "The quick brown fox doesn't jump; it'll've been resting. Çà et là, señor Müller straße œuvre.",
    "Vietnamese": "Tiếng Việt có sáu thanh điệu và nhiều dấu phụ khác nhau.",
    "Greek": "Η γρήγορη αλεπού πηδάει πάνω από τον σκύλο. Ἐν ἀρχῇ ἦν ὁ λόγος.",
    "Cyrillic": "Съешь же ещё этих мягких французских булок, да выпей чаю. Їжак і ґанок.",
    "Armenian": "Բոլոր մարդիկ ծնվում են ազատ ու հավասար։",
    "Hebrew": "כל בני אדם נולדו בני חורין ושווים. שָׁלוֹם עֲלֵיכֶם",
    "Arabic": "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق، ١٢٣٤٥.",
    "Persian": "تمام افراد بشر آزاد به دنیا می‌آیند، ۱۲۳۴.",
    "Syriac": "ܫܠܡܐ ܥܠܝܟܘܢ",
    "Devanagari": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता है। १२३",
    "Bengali": "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা নিয়ে জন্মগ্রহণ করে। ৪৫৬",
    "Tamil": "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "Telugu": "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులు.",
    "Malayalam": "മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടെ ജനിച്ചവരാണ്.",
    "Sinhala": "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත.",
    "Thai": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน ๑๒๓",
    "Lao": "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ",
    "Tibetan": "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས།",
    "Burmese": "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် မွေးဖွားလာသူများ ဖြစ်သည်။",
    "Georgian": "ყველა ადამიანი იბადება თავისუფალი და თანასწორი.",
    "Hangul": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "Ethiopic": "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
    "Khmer": "មនុស្សទាំងអស់កើតមកមានសេរីភាព",
    "Mongolian": "ᠬᠦᠮᠦᠨ ᠪᠦᠷ ᠲᠥᠷᠥᠵᠦ ᠮᠡᠨᠳᠡᠯᠡᠬᠦ",
    "Han": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，共二〇二四年。",
    "Traditional": "人人生而自由，在尊嚴和權利上一律平等。「你好」、世界！",
    "Japanese": "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナー",
    "Cherokee": "ᏂᎦᏓ ᎠᏂᏴᏫ ᏂᎨᎫᏓᎸᎾ",
    "Gothic": "𐌰𐍄𐍄𐌰 𐌿𐌽𐍃𐌰𐍂 𐌸𐌿 𐌹𐌽 𐌷𐌹𐌼𐌹𐌽𐌰𐌼",
}

CODE = [
    "def f(x: int, *, y=None) -> str:\n    return f\"{x!r:>10}\" if y is None else '%05.2f' % y",
    "#include <vector>\nint main() {\n\tstd::vector<int> v{1, 2, 3};\n\tfor (auto&& x : v) ++x;\n}\n",
    "SELECT a.id, COUNT(*) AS n FROM t1 a LEFT JOIN t2 b ON a.id=b.id WHERE b.x IS NULL GROUP BY 1;",
    "const f = async ({a, ...rest}) => { await fetch(`/api/${a}?q=${encodeURIComponent(rest.q)}`); };",
    "<div class=\"card\"><a href=\"https://example.org/?a=1&amp;b=2\">Link</a><!-- note --></div>",
    "{\"k\": [1, 2.5e-3, null, true], \"s\": \"\\u00e9\\n\"}",
    "fn main() -> Result<(), Box<dyn Error>> { let x: &'static str = \"hi\"; println!(\"{x:?}\"); Ok(()) }",
    "\\begin{align} \\int_0^\\infty e^{-x^2}\\,dx &= \\frac{\\sqrt{\\pi}}{2} \\end{align}",
    "for i in $(seq 1 10); do echo \"$i\" | awk '{print $1*2}' >> out.txt 2>&1; done",
    "|a|b|\n|---|:-:|\n|1|**bold** _it_ `code`|\n\n```py\nprint(1)\n```\n",
    "if (a != b && c <= d || !(e >> 2)) { x ^= ~y | 0xDEADBEEF; } // 100%\r\n",
    "package main\n\nfunc (s *Server) Do(ctx context.Context) (err error) {\n\tdefer func() { _ = recover() }()\n\treturn\n}",
    "        deep = indentation\n            deeper\n\t\t\ttabs\n  \t mixed",
    "http://user:pw@host.example:8080/path/to/file.tar.gz#frag?x=%20%2F me@mail.example +1-202-555-0100",
    "2024-06-07T12:34:56.789Z 3.14159265358979 1,234,567.89 0x1F 1e10 ½ ² Ⅷ ① 12345678901234567890",
]

EMOJI = [
    "😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷🇯🇵", "❤️‍🔥", "1️⃣", "🧑🏿‍🚀", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "☺️", "⌚︎", "🤷🏻‍♀️", "👩🏼‍❤️‍💋‍👨🏾", "🫀",
]

WHITE = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\v", "\f", "\u00a0", "\u2003", "\u3000", "\u2028", "\u2029",
         "\u0085", "\u1680", "\u202f", "\u205f", "\u200b", "\ufeff", "\u180e", "\n\n", " \n", "\n ", "\t\t"]

# Letters whose decompositions, case folds or categories trip tokenizers.
ODD = [
    "e\u0301", "\u00e9", "a\u0323\u0302", "a\u0302\u0323", "\u1e9b\u0323", "\u212b", "\ufb01", "\ufb05", "\u017f",
    "\u0130", "\u0131", "\u1100\u1161\u11a8", "\uac01", "\u0344", "\u0958", "\u2126", "\ufdfa", "\u0e33", "\u0f73",
    "\u200d", "\u200c", "\u00ad", "\u2060", "\u061c", "\ufffc", "\ufffd", "\u02bc", "\u2019s", "'S", "'LL", "'\u017f",
    "\u2581", "\u2581\u2581", "\u0120", "\u010a", "\u2582", "<0x0A>", "<0xFF>", "\u0660\u0661", "\u4e00\u9fa5\u9fa6",
    "\u3400", "\U00020000", "\u30fc", "\u309f", "\u30a0", "\uff21\uff11\uff01", "\ue000", "\U000f0000", "\U0010ffff",
    "\u0378", "\ufdd0", "\uffff", "\u0300", "\u0300\u0316", "\u20dd", "_", "\u203f", "\u2014", "\u20ac", "\u2211",
]

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "<bos>", "<eos>", "<|eot_id|>",
           "<|begin_of_text|>", "<start_of_turn>", "<end_of_turn>", "<think>", "</think>", "<tool_call>", "<table>",
           "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<|fim_prefix|>", "<unused7>", "<|im_start", "im_end|>",
           "<file_sep>", "[multimodal]", "<｜tool▁sep｜>"]

BROKEN = [b"\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
          b"\xfe\xff", b"\xe0\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x28\xa1", b"\xc3\x28", b"\x80\x80\x80", b"\xa0\xa1"]


def words(rng):
    out = []
    for sentence in SCRIPTS.values():
        out += sentence.split()
    rng.shuffle(out)
    return out


def lines():
    rng = random.Random(SEED)
    vocabulary = words(rng)
    out = [""]
    out += list(SCRIPTS.values()) + CODE + EMOJI + WHITE + ODD + SPECIAL
    out += [chr(c) for c in range(128)]
    out += ["a" + chr(c) + "b" for c in range(32)] + [" " + chr(c) + " 1" for c in range(33, 127)]
    out += [w + c + w for w in ("a", "1", " ") for c in WHITE + ODD]
    out += [c * n for c in (" ", "\n", "\t", "\r\n", "a", "1", "=", "-", "é", "中", "😀", "\u2581", "\u0301") for n in
            (2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 40, 64, 100)]
    out += ["x" + c * n + "y" for c in (" ", "\n", "\t", "\n ", " \n", "\u3000") for n in (2, 3, 4, 6, 9, 20, 40)]
    for text in SCRIPTS.values():  # cut anywhere, in both normal forms
        for form in ("NFC", "NFD"):
            whole = unicodedata.normalize(form, text)
            for _ in range(3):
                a, b = sorted(rng.sample(range(len(whole) + 1), 2))
                out.append(whole[a:b])
    for text in CODE:
        for _ in range(6):
            a, b = sorted(rng.sample(range(len(text) + 1), 2))
            out.append(text[a:b])
    for _ in range(250):  # words of all scripts with odd separators
        out.append("".join(rng.choice(vocabulary) + rng.choice(WHITE[:12]) for _ in range(rng.randint(2, 9))))
    for _ in range(150):
        out.append("".join(rng.choice(ODD + WHITE + EMOJI + vocabulary[:40]) for _ in range(rng.randint(2, 12))))
    for _ in range(120):
        out.append("".join(rng.choice(SPECIAL + vocabulary[:60] + [" ", "\n", "  "]) for _ in range(rng.randint(2, 9))))
    for _ in range(100):  # numbers, and contractions in every case
        out.append("".join(rng.choice("0123456789.,- ") for _ in range(rng.randint(1, 24))))
        out.append(rng.choice(["I", "we", "THEY", "é", "1"]) + rng.choice(["'s", "'T", "'re", "'VE", "'m", "'Ll", "'d",
                                                                           "\u2019s", "'x"]) + rng.choice(["", "x", " "]))
    for _ in range(60):
        out.append("".join(chr(rng.choice([rng.randint(0, 31), rng.randint(32, 126), 127, 0x80, 0x9f])) for _ in
                           range(rng.randint(1, 16))))
    for _ in range(100):  # any assigned character of the older blocks
        out.append("".join(chr(rng.choice([rng.randint(0xa0, 0x24f), rng.randint(0x370, 0x52f), rng.randint(0x900, 0x97f),
                                           rng.randint(0x2010, 0x2bff), rng.randint(0x3041, 0x30ff),
                                           rng.randint(0x4e00, 0x9fa5), rng.randint(0xac00, 0xd7a3),
                                           rng.randint(0x1f300, 0x1f64f)])) for _ in range(rng.randint(1, 20))))
    for _ in range(40):  # one long line each
        out.append(" ".join(rng.choice(vocabulary) for _ in range(60)))
    encoded = [line.encode() for line in out]
    encoded += BROKEN
    pool = [w.encode() for w in vocabulary[:80]] + [b" ", b"\n", b"  ", b"1"] + [c.encode() for c in EMOJI[:4]]
    for _ in range(120):
        encoded.append(b"".join(rng.choice(BROKEN if rng.random() < 0.4 else pool) for _ in range(rng.randint(2, 8))))
    return encoded


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "text" / "data" / "tokenizer_corpus.bin"
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    path.parent.mkdir(parents=True, exist_ok=True)
    records = lines()
    path.write_bytes(b"".join(b"%d\n%s\n" % (len(r), r) for r in records))
    print(f"{len(records)} lines, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
