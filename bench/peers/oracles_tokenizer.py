"""Makes what models/hf/tokenizer takes from the `tokenizers` package: unicode.bin.gz, the
properties of code points as the package sees them (it mixes four versions of Unicode), and
testdata, tokenizers with the ids of hard strings.

    python bench/peers/oracles_tokenizer.py models/hf/tokenizer data/minilm/tokenizer.json
"""

import gzip
import json
import os
import random
import sys
import zlib

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

OUT, MINILM = sys.argv[1], sys.argv[2]
TESTDATA = os.path.join(OUT, "testdata")
CODE_POINTS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# The order of internal categories in unicode.go. Cs cannot be in a string.
CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()


def write_gzip(path, data):
    with open(path, "wb") as f:
        f.write(gzip.compress(data, 9, mtime=0))
    print("wrote", path, os.path.getsize(path))


def code_points():
    """A set of flags for each code point, as runs of (length, flags) in varints."""
    flags = dict.fromkeys(CODE_POINTS, 0)
    everything = "".join(CODE_POINTS)

    def mark(bit, keep):
        for c in CODE_POINTS:
            if keep(c):
                flags[c] |= 1 << bit

    for i, name in enumerate(CATEGORIES):  # what Oniguruma's \p{..} says
        rest = set(normalizers.Replace(Regex(r"\p{%s}" % name), "").normalize_str(everything))
        for c in CODE_POINTS:
            if c not in rest:
                assert flags[c] == 0, (hex(ord(c)), name)
                flags[c] |= i
    removed = pre_tokenizers.Punctuation(behavior="removed")
    mark(5, lambda c: not removed.pre_tokenize_str(c))
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    mark(6, lambda c: clean.normalize_str(c) == "")
    space = pre_tokenizers.WhitespaceSplit()
    mark(11, lambda c: not space.pre_tokenize_str(c))
    strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    mark(7, lambda c: strip.normalize_str("a" + c) == "a" and nfd.normalize_str(c) == c)
    kept = set(normalizers.StripAccents().normalize_str(everything))
    mark(8, lambda c: c not in kept)
    digits = pre_tokenizers.Digits(individual_digits=False)
    mark(9, lambda c: len(digits.pre_tokenize_str("a" + c)) == 2)
    word = pre_tokenizers.Whitespace()
    mark(10, lambda c: len(word.pre_tokenize_str("a" + c)) == 1 and not flags[c] >> 11 & 1)

    # Decomposes, or is put in order before or behind a mark of the least or the greatest class.
    def moves(c):
        return (nfkd.normalize_str(c) != c or nfd.normalize_str("a" + c + "\u0334") != "a" + c + "\u0334"
                or nfd.normalize_str("a\u0345" + c) != "a\u0345" + c)
    mark(12, moves)

    def varint(n):
        out = bytearray()
        while n >= 0x80:
            out.append(n & 0x7F | 0x80)
            n >>= 7
        return bytes(out) + bytes([n])

    runs, last, length = bytearray(), None, 0
    for i in range(0x110000):
        f = flags.get(chr(i), 0)
        if f == last:
            length += 1
            continue
        if length:
            runs += varint(length) + varint(last)
        last, length = f, 1
    runs += varint(length) + varint(last)
    write_gzip(os.path.join(OUT, "unicode.bin.gz"), bytes(runs))


def block_sums():
    """CRC-32 of what each normalizer makes of each block of 4,096 code points, in contexts that put marks in order."""
    forms = {"Lowercase": normalizers.Lowercase(), "NFD": normalizers.NFD(), "NFC": normalizers.NFC(), "NFKD": normalizers.NFKD(),
             "NFKC": normalizers.NFKC(), "StripAccents": normalizers.StripAccents(), "Nmt": normalizers.Nmt(),
             "BertNormalizer": normalizers.BertNormalizer(), "Cased": normalizers.BertNormalizer(lowercase=False)}
    sums = {}
    for name, form in forms.items():
        sums[name] = {}
        for block in [*range(0x34), 0xE0, 0xF0, 0x10F]:  # there are no characters in the others
            crc = 0
            for c in range(block << 12, (block + 1) << 12):
                if not 0xD800 <= c < 0xE000:
                    text = form.normalize_str("a%c\u0334\u0323e%c\u0301\u0345%c" % (c, c, c))
                    crc = zlib.crc32(text.encode() + b"\n", crc)
            sums[name][block] = crc
    write_gzip(os.path.join(TESTDATA, "blocks.json.gz"), json.dumps(sums).encode())


HARD = [
    "", " ", "  ", "\n", "\t \r\n", "a", "A", ".", "The quick brown fox jumps over the lazy dog.", "Hello, world! It's 2026; we'll've done 3.14%...",
    "naïve café résumé Ångström Çedilla ñandú", "nai\u0308ve cafe\u0301 A\u030angstro\u0308m", "ÀÉÎÕÜ àéîõü ŠŽ ÿ Ŀ ŉ ǆ",
    "İstanbul ISTANBUL ıI", "ΣΊΣΥΦΟΣ ὈΔΥΣΣΕΎΣ ς σ", "straße STRASSE ẞ ﬀ ﬁ ﬂ ﬃ ﬆ", "Привет, мир! Ёлка й и\u0306", "你好，世界。这是一个测试！", "日本語のテキスト、カタカナ ｶﾞｷﾞ ひらがな",
    "한국어 텍스트 각 \u1100\u1161\u11a8 \u1112\u1161\u11ab", "𠀀𠀁 㐀 豈 \U0002f800 \U0002b820 \U0002b900 \U0002ceb0", "مرحبا بالعالم، كيف الحال؟ ١٢٣", "שָׁלוֹם עוֹלָם", "\u202eright to left\u202c \u200f\u200e\u2066x\u2069",
    "สวัสดีชาวโลก น้ำ ำ", "नमस्ते दुनिया क्षत्रिय १२३", "தமிழ் ಕನ್ನಡ മലയാളം বাংলা ਪੰਜਾਬੀ", "မြန်မာ ភាសាខ្មែរ ລາວ བོད་ཡིག", "አማርኛ ᏣᎳᎩ ქართული Ⴀ Հայերեն",
    "👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 🏳️\u200d🌈 ☺️ 1️⃣ 🇩🇪🇫🇷 🫠", "\u200d\u200c\u200b\ufeff\u2060\u00ad", "a\u00a0b\u2009c\u3000d\u1680e\u2028f\u2029g\u0085h\u180ei",
    "\x00\x01\x02a\x07b\x08\x0b\x0cc\x1b[31m\x7f\x80\x9f", "a\ufffdb\ufffec\uffffd", "\ue000\uf8ff\U000f0000\U0010fffd", "\u0378\u0530\U0001fffe\U000e0080 \U0001e000",
    "\u061d \u2e52 \u2e5d \U00011b00 punctuation of newer Unicode", "\u1c89 \ua7cb \ua7ce \U00010d50 \U00016ea0 newer capitals", "½ ² ③ Ⅳ ๓ 𝟘 ፩ ௧ 一二三 1234567 12,345.67",
    "(a)[b]{c}<d>\"e\"'f'`g`~!@#$%^&*_-+=|\\/?;:", "«guillemets» “quotes” ‘single’ … — – ‐ · • § ¶ © ® ™ € £ ¥ ¢ ₿", "∑∫√∞≈≠≤≥ ∀x∈ℝ: x²≥0 𝒜𝔹ℂ 𝕏",
    "[CLS] [SEP] [PAD] [MASK] [UNK]", "a[CLS]b [cls] [Sep]", "x [MASK] y [MASK]z", "  [MASK]  ", "<s> </s> <pad> <mask> <unk>", "Hello <mask>!  <mask>\t<mask>", "<|endoftext|> a<|endoftext|>b <|begin_of_text|>",
    "[CLS", "CLS]", "<<s>>", "##ing ##", "Ġhello Ċ ĉ ġ", "▁under_score▁", "newtoken NewToken xnewtokenx newtoken. new token NEWTOKEN", "Café-token CAFÉ-TOKEN cafe\u0301-token",
    "don't DON'T we'LL I'M you'RE they'Ve 'S 'ſ 'K it's'll ''s", "they'REhere we'LLbe 'Sx 'ſx I'mok x'True y'Type z'Decimal a'See b'This c'Mapping", "'", "''", "'t", " 't", "x  y   z    ", "   lead", "trail   ", "a\n\nb\n \n c\r\n\r\nd \n", "\n\n\n", " \n ", "tab\t\ttab \t x",
    "http://example.com/a?b=c&d=%20#e user@example.org C:\\dir", "def f(x):\n    return x**2  # square\n\n\n", "{\"key\": [1, 2.5e-3, null]}", "camelCase snake_case SCREAMING kebab-case x1y2z3",
    "a" * 99, "a" * 100, "a" * 101, "é" * 100, "e\u0301" * 101, "word" * 500, "ab " * 300, "1" * 250, "!" * 120, " " * 300 + "x", "\n" * 150, "你" * 120, "🙂" * 80, "ﷺ" * 12,
    "z" + "\u0301\u0316\u0334" * 25 + "algo", "\u0301leading mark", "a\u0345\u0301\u0316\u0327", "q\u0323\u0307 q\u0307\u0323 ế ệ \u1eadx", "\U00020041\u0301 \U00011099\U000110ba \U0001d15e \u0958 \u2126 \u212b \u0340 \u0344 \u0f73",
    "ｆｕｌｌ ｗｉｄｔｈ ＡＢＣ １２３ ㍿ ㌔ ℡ ⑳ ﷲ", "ab\u0600c \u06dd \u070f \U000110bd \ufff9x\ufffb", "\u2160\u2170 \u24b6\u24d0 \u02b0 \u1d43 \u00aa\u00ba", "_a_ __init__ a_b \u203f\u2040 \u30fb",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua. " * 4,
    "Patient reports mild headaches (2-3/week) since 10/2021; ibuprofen 400mg helped. No side-effects!!! :-)",
]
SPECIAL = ["[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<mask>", "<|endoftext|>", "newtoken", "Café-token"]
ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " .,;:!?'\"()-_/@#$%&*+=<>[]{}|\\~^`", "àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿœšžłđğışİŒŠŽ",
    "".join(map(chr, range(0x300, 0x370))), "".join(map(chr, range(0x370, 0x530))), "".join(map(chr, range(0x590, 0x700))), "".join(map(chr, range(0x900, 0xD00))),
    "".join(map(chr, range(0xE00, 0x1000))), "".join(map(chr, range(0x1E00, 0x2000))), "".join(map(chr, range(0x2000, 0x2400))), "".join(map(chr, range(0x3000, 0x3100))),
    "".join(map(chr, range(0x4E00, 0x4F00))), "".join(map(chr, range(0xAC00, 0xAD00))), "".join(map(chr, range(0xFB00, 0xFB50))), "".join(map(chr, range(0xFE00, 0xFF80))),
    "".join(map(chr, range(0x1F300, 0x1F700))) + "\u200d\ufe0f", "".join(map(chr, range(0x10000, 0x12000))), "".join(map(chr, range(0x1D000, 0x1D800))), "".join(map(chr, range(0, 0xA0))), "\n\r\t \u00a0\u2003\u3000",
]


def hard_texts():
    """HARD, and random ones that mix scripts, spaces and tokens."""
    rng = random.Random(20261201)
    texts = list(HARD)
    while len(texts) < 440:
        text = ""
        for _ in range(rng.randint(1, 10)):
            kind = rng.random()
            if kind < 0.06:
                text += rng.choice(SPECIAL)
            elif kind < 0.16:
                text += "".join(rng.choice(CODE_POINTS) for _ in range(rng.randint(1, 4)))
            else:
                alphabet = ALPHABETS[0] if kind < 0.45 else rng.choice(ALPHABETS)
                text += "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 9)))
            text += " " * (rng.random() < 0.4)
        texts.append(text)
    return texts


LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


# What pattern.go lets through, each thing at least once.
PATTERNS = [LLAMA, O200K, r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"\s+", r"\S+", r"\d+", r"\D", r"[0-9][0-9]?", r"\d{1,3}",
            r"[^\s]{2,4}", r"[a-z]{3}", r"[a-c]{2,}", r"a.", r".", r"\p{Lu}\p{Ll}*?\p{Ll}", r"\P{L}+", r"[^\P{L}a-e]+", r"(?<=\p{L})\p{M}", r"(?<!\s)\p{P}(?=\s)", r"(?>\p{Nd}+)x",
            r"(?i:they|mok|k|s)", r"(?i:a(b|c)+d?)e", r"[\]\-\\^\[]+", r"[+-]?[0-9]+\.[0-9]*", r"[一-龥ぁ-ん]+", r"\p{Sm}|\p{Sc}|\p{Sk}|\p{So}", r"[\p{Cf}\p{Co}\p{Cc}]", r"\p{Zs}\p{Z}*", r"é|ß|\.\n| {2,}", r"\n|\r\n?|\t+", r"[}{]",
            r"(?:(?:ab)+|c|[^\p{L}]){1,2}"]


def template(before, behind, ids):
    single = " ".join([*before, "$A", *behind])
    return processors.TemplateProcessing(single=single, pair=single + " $B", special_tokens=[(t, ids(t)) for t in dict.fromkeys([*before, *behind])])


def trained(texts, special, **options):
    """Byte pair encoding trained on the language reference that comes with Python, and the hard texts."""
    import pydoc_data.topics
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = options.pop("pre_tokenizer")
    trainer = trainers.BpeTrainer(special_tokens=special, show_progress=False, **options)
    t.train_from_iterator([*list(pydoc_data.topics.topics.values())[:40], *texts], trainer)
    return t


def tokenizers(texts):
    """Tokenizers by name, and whether the file is of the old form: no type of the model, merges as "a b"."""
    full = json.load(open(MINILM))
    real = Tokenizer.from_str(json.dumps(full))
    out = {"minilm": real}

    # A part of the vocabulary is enough for what only differs around it.
    kept = [t for t, i in sorted(full["model"]["vocab"].items(), key=lambda p: p[1]) if not t.startswith("[unused") and (i < 4200 or len(t) < 2)]
    piece = lambda special: models.WordPiece({t: i for i, t in enumerate([*special, *[t for t in kept if t not in special]])}, unk_token=special[3])
    bert = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    t = Tokenizer(piece(bert))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.add_special_tokens(bert)
    t.post_processor = template(["[CLS]"], ["[SEP]"], t.token_to_id)
    t.enable_truncation(128)
    t.enable_padding(length=128)
    out["bert"] = t

    mpnet = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
    t = Tokenizer(piece(mpnet))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.add_special_tokens([*mpnet[:4], AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    out["mpnet"] = t

    t = Tokenizer(piece(bert))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(lowercase=False, strip_accents=None), pre_tokenizers.BertPreTokenizer()
    t.add_special_tokens([*bert[:4], AddedToken("[MASK]", rstrip=True)])
    t.add_tokens([AddedToken("newtoken", single_word=True), AddedToken("new", single_word=True, normalized=False), AddedToken("Café-token", normalized=True)])
    t.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    t.enable_truncation(12, direction="left")
    out["cased"] = t

    t = Tokenizer(piece(bert))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace("a", "o"),
                                         normalizers.Replace(Regex(r"\p{Sc}|[0-9]{2}"), "dollar"), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.Punctuation(behavior="contiguous")])
    t.add_tokens([AddedToken("Café-token", normalized=True), AddedToken("<mask>", normalized=True, lstrip=True, rstrip=True)])
    out["pieces"] = t

    byte = pre_tokenizers.ByteLevel.alphabet()
    t = trained(texts, ["<|endoftext|>"], vocab_size=2600, initial_alphabet=byte, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    out["gpt2"] = t

    t = trained(texts, ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)], vocab_size=2200, initial_alphabet=byte,
                pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True), min_frequency=3)
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    out["roberta"] = t

    def relative(base, **fields):
        j = json.loads(base.to_str())
        j["model"].update(fields)
        return Tokenizer.from_str(json.dumps(j))
    # Without each fifth merge, words of the vocabulary are not reached by merges.
    merges = json.loads(out["gpt2"].to_str())["model"]["merges"]
    t = relative(out["gpt2"], ignore_merges=True, merges=[m for i, m in enumerate(merges) if i % 5])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.add_special_tokens(["<|begin_of_text|>"])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template(["<|begin_of_text|>"], [], t.token_to_id)])
    out["llama3"] = t

    t = relative(out["gpt2"])
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(O200K), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    out["o200k"] = t

    t = relative(out["gpt2"])
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.ByteLevel()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split("Ġ", "merged_with_next"), pre_tokenizers.Split(Regex("[aeiou]"), "merged_with_previous"),
                                               pre_tokenizers.Split(Regex("(?<=t)h|q(?=u)"), "contiguous"), pre_tokenizers.FixedLength(7)])
    out["splits"] = t

    # Few letters, so that others are unknown. The trainer gives tokens with a prefix or suffix other ids in each run, so they are made here.
    letters = ["".join(c for c in t if c < "\u0450") for t in texts if len(t) < 80][:60]
    plain = json.loads(trained(letters, [], vocab_size=500, pre_tokenizer=pre_tokenizers.WhitespaceSplit()).to_str())["model"]

    def affixed(first, ends, **options):
        """The plain model where tokens at the end of a word, or behind its beginning, have another form."""
        vocab = [*first, *plain["vocab"], *map(ends, plain["vocab"])]
        merges = []
        for a, b in plain["merges"]:
            merges += [(a, ends(b)), (a, b)] if "end_of_word_suffix" in options else [(a, ends(b)), (ends(a), ends(b))]
        return Tokenizer(models.BPE({t: i for i, t in enumerate(vocab)}, merges, unk_token="<unk>", **options))

    t = affixed(["<unk>"], lambda t: t + "</w>", fuse_unk=True, end_of_word_suffix="</w>")
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(), pre_tokenizers.Punctuation()])
    out["clip"] = t

    t = affixed(["<unk>", *["<0x%02X>" % b for b in range(0x80, 0xF0)]], lambda t: "##" + t, byte_fallback=True, continuing_subword_prefix="##")
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.Prepend("_")])
    t.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    out["fallback"] = t
    return out


def old_form(j):
    """As files were in 2020: no type of the model, merges as texts."""
    del j["model"]["type"]
    j["model"]["merges"] = [" ".join(m) for m in j["model"]["merges"]]
    j["model"].update(continuing_subword_prefix="", end_of_word_suffix="")
    return j


def checksum(ids):
    return zlib.crc32(" ".join(map(str, ids)).encode())


def expected_ids():
    texts = hard_texts()
    files, want = {}, {}
    for name, t in tokenizers(texts).items():
        whole, few = Tokenizer.from_str(t.to_str()), Tokenizer.from_str(t.to_str())
        for other in (t, whole, few):
            other.no_padding()
        whole.no_truncation()
        direction = t.truncation["direction"] if t.truncation else "right"
        few.enable_truncation(9, direction=direction)
        ids = [whole.encode(x).ids for x in texts]
        want[name] = {"cut": checksum([i for x in texts for i in few.encode(x).ids + [-1]]),
                      "file": checksum([i for x in texts for i in t.encode(x).ids + [-1]]), "tokens": sum(map(len, ids))}
        if name in ("minilm", "gpt2", "roberta"):
            want[name]["ids"] = ids
        else:
            want[name]["sums"] = [checksum(i) for i in ids]
        if name != "minilm":
            j = json.loads(t.to_str())
            files[name] = old_form(j) if name == "gpt2" else j
    # Equal models are kept once.
    shared = {}
    for j in files.values():
        for part in ("vocab", "merges"):
            if part in j["model"]:
                text = json.dumps(j["model"][part], ensure_ascii=False)
                key = "%s-%08x" % (part, zlib.crc32(text.encode()))
                shared[key] = j["model"][part]
                j["model"][part] = key
    patterns = {}
    for p in PATTERNS:
        split = pre_tokenizers.Split(Regex(p), "isolated")
        patterns[p] = zlib.crc32("".join(piece + "\0" for x in texts for piece, _ in split.pre_tokenize_str(x)).encode())
    data = {"tokenizers": files, "shared": shared}
    write_gzip(os.path.join(TESTDATA, "tokenizers.json.gz"), json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode())
    write_gzip(os.path.join(TESTDATA, "expected.json.gz"), json.dumps({"texts": texts, "want": want, "patterns": patterns}, separators=(",", ":")).encode())


if __name__ == "__main__":
    os.makedirs(TESTDATA, exist_ok=True)
    expected_ids()
    if "--ids-only" not in sys.argv:
        code_points()
        block_sums()
