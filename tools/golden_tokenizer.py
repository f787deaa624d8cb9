#!/usr/bin/env python3
"""Writes the tokenizer's golden files from the tokenizers library and transformers (tools/venv):

    tools/golden_tokenizer.py             writes tests/golden/tokenizer_*.jsonl

A file is JSON lines: {"folder": F} or {"files": {name: text}}, a tokenizer, then its cases: {"text": T, "ids": [...]}.
tests/unit/test_tokenizer_golden.c reads them.
The full comparisons are tools/parity_tokenizer.py and parity_folders.py; they take their texts and tokenizers from
here. """
import json
import os
import random
import sys
import tempfile

from tokenizers import AddedToken, BertWordPieceTokenizer, Tokenizer, models, normalizers, pre_tokenizers, processors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(ROOT, "tests", "golden")
SHARED = os.path.join(ROOT, "..", "shared", "tokenizers")
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ("the dress fit love is it un ##aff ##able ##s ##ing ##ed ##ly per ##fect hello world i am 5 ' 8 caf ##é cafe "
         "naive").split()
# Letters with and without accents, marks that are kept and that are dropped, Chinese, Hangul, newer letters.
RARE = ("éèñüçßøłıİÅΑΩσςаЖאبกあアー中国한ᄒ" "ᅡᆫ½©€™😀ﬁẞ\u1b44\u302e\ua953\u0301\u0327\u09c7\u09be\u2126\u1e9e"
        "\U00010d50\U00010d70\u0898\U000111c9")

TEXTS = [
    "", " ", "\t\r\n", "Hello, WORLD!", "unaffable", "The dress fits perfectly.", "i'm 5'8\" and 110lbs",
    "don't -- stop...",
    "caf\u00e9 cafe\u0301 CAF\u00c9", "na\u00efve r\u00e9sum\u00e9", "\u0130stanbul I\u0307 \u0131",
    "\u03a3\u03b1\u03c2 \u03a3\u0391\u03a3",
    "stra\u00dfe STRASSE \u1e9e", "\u4e2d\u56fd\u4e2d", "a\u4e2db", "\u3042\u30a2\u30fc", "\ud55c\uad6d\uc5b4",
    "\u1112\u1161\u11ab",
    "soft\u00adhyphen zero\u200bwidth \ufefffeed", "\u00a0nbsp\u2003em\u2028line\u2029para\u3000wide",
    "nul\x00byte bell\x07 esc\x1b del\x7f",
    "\ufffd\ufffd replacement", "\ue000private", "\u037e \u0387 \u1fef \u226e \u2260", "\u00a1hola! \u00bfqu\u00e9?",
    "\u201cquoted\u201d \u2018it\u2019s\u2019 \u2014 dash",
    "$100 + 5% = #1 @home ~ ^ ` |", "[CLS] in the text [SEP]", "[MASK]", "a[MASK]b", "[UNK][PAD]", "[cls] [Sep]",
    "[[SEP]]",
    "[SEP", "##ing ## #",
    "<s> in </s> the <mask> text", "a <mask>", "a  <mask>  b", "<mask><mask>", "<|endoftext|>x", "<s", "<<s>>", "<S>",
    "x" * 99, "x" * 100, "x" * 101, "x" * 1000, "\u00e9" * 100, "e\u0301" * 100, "e\u0301" * 101, "\ud55c" * 34,
    "a b " * 20,
    "e\u0327\u0301 e\u0301\u0327", "a\u302e\u1b44b", "a\u302e\u0301\u1b44b", "a\u302e\u034f\u1b44b",
    "\u1b44\ua953\u302e\u302f\u1b44", "\u09cb \u09c7\u09be",
    "\U0001f600 smile\U0001f600s", "\U00010d50\U00010d51", "\u0898 \u08d4 \U000111c9", "\ufb01ne \uff21\uff22",
    "\u2126 \u212b \u00c5", "\U0002f800 \uf900 \u8c48",
    "\U000e0001tag", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u064b", "\u05e9\u05c1\u05dc\u05d5\u05dd",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "Love this dress!  it's sooo pretty.\r\ni happened to find it in a store", "1,234.56e-7", "http://a.b/c?d=e&f#g",
    "it's a \"test\": (one) [two] {three}",
    "I'll we've they're I'd I'm can't 'S 'LL it''s '' 'tis x'sy 'll'll", "  two  three   four    ",
    "\n\nlines\n \n \tend\n",
    " \u00a0 x\u00a0 y\u00a0", "a\u3000 b\u2003\u2003c",
    "3.14 \u0663\u0664 \u2167\u00bd\u00b2 x2y 2x", "!?!? ... -- \u2026", "\ufdfa \u1e9b\u0323 \u3392 \u2460",
    "\uac00\u11a8 \u1100\u1161\u11a8", "a\u0345\u0301\u0327\u0315", "\u0344\u0390",
]


def random_texts(seed, n):
    """Short texts that mix difficult cases."""
    chance = random.Random(seed)
    pools = ["abcxyz ABC", RARE + " ", "ab.,!?'\"[] ", "the dress fit un able s ing ",
             "e\u0301\u0327\u302e\u1b44\u034f a",
             "0 1\u00b2 x\n\t'sdmlre "]
    for _ in range(n):
        yield "".join(chance.choice(chance.choice(pools)) for _ in range(chance.choice([3, 8, 20])))


def small_vocabulary():
    pieces = list(SPECIALS)
    for char in [chr(i) for i in range(33, 127)] + list(RARE):
        pieces += [char, "##" + char]
    pieces += WORDS
    return [piece for i, piece in enumerate(pieces) if piece not in pieces[:i]]


def byte_alphabet():
    """GPT-2's characters for bytes 0 to 255."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def byte_model(words=("the", "dress", "hello", " the", " dress", " it", "'s", "\u00e9", "e\u0301", "  "),
               extra=("<s>", "</s>", "<unk>"), **options):
    """A byte-level BPE that knows all bytes, and merges that build these words from their left."""
    alphabet = byte_alphabet()
    vocabulary = {char: i for i, char in enumerate(alphabet)}
    merges = []
    for word in words:
        left, *letters = [alphabet[byte] for byte in word.encode()]
        for letter in letters:
            if (left, letter) not in merges:
                merges.append((left, letter))
            left += letter
            vocabulary.setdefault(left, len(vocabulary))
    for special in extra:
        vocabulary[special] = len(vocabulary)
    return models.BPE(vocabulary, merges, **options)


def bert(folder, lower):
    return BertWordPieceTokenizer(os.path.join(folder, "vocab.txt"), lowercase=lower)._tokenizer


def special(tokens, **options):
    return [AddedToken(token, special=True, normalized=False, **options) for token in tokens]


def byte_level(vocabulary, merges, roberta):
    """As transformers 5 reads a folder of vocab.json and merges.txt."""
    tokenizer = Tokenizer(models.BPE.from_file(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if roberta:
        ids = [tokenizer.token_to_id(token) for token in ("</s>", "<s>")]
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", ids[0]), ("<s>", ids[1]), trim_offsets=True,
                                                                add_prefix_space=False)
    tokenizer.add_special_tokens(special(["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if roberta else ["<|endoftext|>"]))
    return tokenizer


def small_wordpiece(normalizer, pre_tokenizer, processor="template", **options):
    vocabulary = {piece: i for i, piece in enumerate(small_vocabulary())}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", **options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if processor == "template":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    elif processor is not None:
        tokenizer.post_processor = processor
    return tokenizer


def small_bytes(normalizer, space=False, regex=True, processor=None, before=(), **options):
    tokenizer = Tokenizer(byte_model(**options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    level = pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*before, level]) if before else level
    if processor is not None:
        tokenizer.post_processor = processor
    return tokenizer


def with_tokens(tokenizer, tokens):
    tokenizer.add_tokens(tokens)
    return tokenizer


def components():
    """Tokenizers that together use every supported component."""
    n, p = normalizers, pre_tokenizers
    blanks, words = p.WhitespaceSplit(), p.Whitespace()
    for lower in (False, True):
        for strip in (None, False, True):
            yield small_wordpiece(n.BertNormalizer(lowercase=lower, strip_accents=strip), p.BertPreTokenizer())
    yield small_wordpiece(n.BertNormalizer(clean_text=False), p.BertPreTokenizer())
    yield small_wordpiece(n.BertNormalizer(handle_chinese_chars=False), p.BertPreTokenizer(),
                          processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))
    yield small_wordpiece(n.Lowercase(), words, processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2)))
    yield small_wordpiece(n.Sequence([n.Strip(), n.NFD(), n.StripAccents(), n.Lowercase()]), blanks, None)
    yield small_wordpiece(n.NFKC(), p.Sequence([blanks, p.Punctuation()]),
                          processors.Sequence([processors.ByteLevel()]))
    yield small_wordpiece(None, words, max_input_chars_per_word=5, continuing_subword_prefix="##")
    yield small_wordpiece(n.Lowercase(), blanks, continuing_subword_prefix="")
    yield small_wordpiece(None, None, max_input_chars_per_word=1000)
    for behavior in ("isolated", "removed", "contiguous", "merged_with_previous", "merged_with_next"):
        yield small_wordpiece(None, p.Sequence([blanks, p.Punctuation(behavior)]))
    for form in (n.NFC, n.NFD, n.NFKC, n.NFKD, n.StripAccents, n.Lowercase, n.Strip):
        yield small_bytes(form())
    yield small_bytes(n.Strip(left=True, right=False))
    yield small_bytes(n.Strip(left=False, right=True), space=True)
    yield small_bytes(n.Sequence([n.NFKD(), n.Sequence([n.StripAccents(), n.NFC()])]))
    yield small_bytes(None, space=True, processor=processors.RobertaProcessing(("</s>", 9), ("<s>", 8)))
    yield small_bytes(None, regex=False)
    yield small_bytes(None, space=True, regex=False, ignore_merges=True)
    yield small_bytes(None, space=True, before=[blanks])
    yield small_bytes(None, before=[words, p.Punctuation("contiguous")], ignore_merges=True)
    yield Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "<unk>": 3, "é": 4, "abé": 5}, [("a", "b"), ("ab", "é")],
                               unk_token="<unk>"))
    yield Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "<unk>": 3, "é": 4, "abé": 5}, [("a", "b"), ("ab", "é")],
                               unk_token="<unk>", fuse_unk=True))
    token = AddedToken
    yield with_tokens(small_wordpiece(n.BertNormalizer(), p.BertPreTokenizer()), special(SPECIALS) + [
        token("dress"), token("Fit"), token("\u00e9t", single_word=True), token("the", single_word=True, lstrip=True),
        token("CAF", normalized=True),
        token("[x]", lstrip=True, rstrip=True, normalized=False), token("[xy]", normalized=False),
        token("[", normalized=False, rstrip=True)])
    yield with_tokens(small_bytes(None, space=True), special(["<s>", "</s>", "<unk>", "<pad>"])
                      + special(["<mask>"], lstrip=True))
    yield with_tokens(small_bytes(n.NFC()), [token("e\u0301"), token("  ", normalized=False), token("!", lstrip=True),
                                            token("?", rstrip=True)])


def line(**row):
    return json.dumps(row, separators=(",", ":")) + "\n"


def cases(tokenizer, texts, batch=512):
    texts = list(texts)
    for start in range(0, len(texts), batch):
        part = texts[start:start + batch]
        for text, encoding in zip(part, tokenizer.encode_batch(part)):
            yield line(text=text, ids=encoding.ids)


def write(name, lines):
    with open(os.path.join(GOLDEN, name), "w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)


def folders():
    """Small folders without tokenizer.json."""
    for lower in (False, True):
        files = {"vocab.txt": "\n".join(small_vocabulary()) + "\n",
                 "tokenizer_config.json": json.dumps({"do_lower_case": lower})}
        tokenizer = small_wordpiece(normalizers.BertNormalizer(lowercase=lower), pre_tokenizers.BertPreTokenizer())
        tokenizer.add_special_tokens(special(SPECIALS))
        yield line(files=files)
        yield from cases(tokenizer, TEXTS)
        yield from cases(tokenizer, random_texts(20240, 120))
    for roberta in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            names = byte_model(extra=("<s>", "</s>", "<unk>", "<pad>", "<mask>") if roberta
                               else ("<|endoftext|>",)).save(folder)
            files = {os.path.basename(name): open(name, encoding="utf-8").read() for name in names}
            tokenizer = byte_level(*names, roberta)
        if roberta:
            files["tokenizer_config.json"] = json.dumps({"mask_token": {"content": "<mask>", "lstrip": True},
                                                         "add_prefix_space": True})
            tokenizer.add_special_tokens(special(["<mask>"], lstrip=True))
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        yield line(files=files)
        yield from cases(tokenizer, TEXTS)


def bert_json(lower, **options):
    tokenizer = small_wordpiece(
        normalizers.BertNormalizer(lowercase=lower, **options), pre_tokenizers.BertPreTokenizer()
    )
    tokenizer.add_special_tokens(special(SPECIALS))
    return tokenizer


def roberta_json(space):
    extra = ("<s>", "</s>", "<unk>", "<pad>", "<mask>")
    tokenizer = small_bytes(None, space=space, extra=extra)
    ids = [tokenizer.token_to_id(token) for token in ("</s>", "<s>")]
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", ids[0]), ("<s>", ids[1]), add_prefix_space=space)
    tokenizer.add_special_tokens(special(extra[:4]) + special(["<mask>"], lstrip=True))
    return tokenizer


def left(tokenizer):
    tokenizer.enable_truncation(7, direction="left")
    return tokenizer


# Folders with various settings files: transformers' result for each, or the message with which Trident refuses it.
MODEL = {"config.json": {"model_type": "bert"}}
VOCABULARY = {**MODEL, "vocab.txt": "\n".join(small_vocabulary()) + "\n"}
N = len(small_vocabulary())


def settings():
    def beside(files, refused=None, **more):
        return ({**files, **{name.replace("__", "."): value for name, value in more.items()}}, refused)

    def json_file(tokenizer):
        return {**MODEL, "tokenizer.json": tokenizer.to_str()}

    cased, uncased = json_file(bert_json(False)), json_file(bert_json(True))
    roberta = {"config.json": {"model_type": "roberta"}}
    yield beside(VOCABULARY)
    yield beside(VOCABULARY, added_tokens__json={"<x>": N, "<Y>": N + 1})
    yield beside(VOCABULARY, "should have the id", added_tokens__json={"<x>": N + 5})
    yield beside(VOCABULARY, tokenizer_config__json={"additional_special_tokens": ["<x>", "Love"]})
    yield beside(VOCABULARY, tokenizer_config__json={"extra_special_tokens": {"image": "<x>"}, "own_token": "<y>"})
    yield beside(
        VOCABULARY,
        special_tokens_map__json={
            "additional_special_tokens": ["<x>"],
            "cls_token": "[MASK]",
            "mask_token": {"content": "[MASK]", "lstrip": True},
        },
    )
    yield beside(
        VOCABULARY,
        tokenizer_config__json={"additional_special_tokens": ["<y>"]},
        special_tokens_map__json={"additional_special_tokens": ["<x>"]},
        added_tokens__json={"<y>": N, "<X>": N + 1},
    )
    yield beside(VOCABULARY, tokenizer_config__json={"truncation_side": "left", "do_lower_case": False})
    yield beside(
        VOCABULARY,
        tokenizer_config__json={
            "mask_token": None,
            "sep_token": {"__type": "AddedToken", "content": "[SEP]", "rstrip": True},
        },
    )
    yield beside(
        VOCABULARY,
        tokenizer_config__json={
            "added_tokens_decoder": {
                str(N): {"content": "<x>", "special": True},
                "4": {"content": "[MASK]", "lstrip": True},
            }
        },
        special_tokens_map__json={"cls_token": "[MASK]"},
        added_tokens__json={"<y>": N},
    )
    yield beside({**VOCABULARY, "vocab.txt": VOCABULARY["vocab.txt"].replace("[MASK]\n", "")})
    yield beside(cased, "lowercase of the normalizer")
    yield beside(cased, tokenizer_config__json={"do_lower_case": False})
    yield beside(cased, tokenizer_config__json={"do_lower_case": True, "tokenizer_class": "BertTokenizerFast"})
    yield beside(
        cased,
        tokenizer_config__json={
            "tokenizer_class": "PreTrainedTokenizerFast",
            "cls_token": "[MASK]",
            "additional_special_tokens": ["<x>"],
        },
    )
    yield beside(uncased, tokenizer_config__json={"strip_accents": False, "tokenize_chinese_chars": False})
    yield beside(uncased, tokenizer_config__json={"cls_token": "[MASK]"})
    yield beside(uncased, special_tokens_map__json={"cls_token": "[MASK]"}, added_tokens__json={"<x>": N})
    yield beside(json_file(bert_json(True, strip_accents=False)), "strip_accents of the normalizer")
    yield beside(json_file(bert_json(True, handle_chinese_chars=False)), "handle_chinese_chars of the normalizer")
    yield beside(json_file(left(bert_json(True))))
    yield beside(json_file(left(bert_json(True))), tokenizer_config__json={"truncation_side": "right"})
    yield beside({**roberta, "tokenizer.json": roberta_json(True).to_str()}, "add_prefix_space of the pre_tokenizer")
    yield beside(
        {**roberta, "tokenizer.json": roberta_json(True).to_str()}, tokenizer_config__json={"add_prefix_space": False}
    )
    yield beside(
        {**roberta, "tokenizer.json": roberta_json(False).to_str()}, tokenizer_config__json={"add_prefix_space": True}
    )
    yield beside(
        {**roberta, "tokenizer.json": roberta_json(False).to_str()},
        tokenizer_config__json={"additional_special_tokens": ["<x>"]},
    )
    yield beside({**roberta, "vocab.txt": VOCABULARY["vocab.txt"]}, "whose vocabulary is missing")
    yield beside(
        {**roberta, "vocab.txt": VOCABULARY["vocab.txt"]}, tokenizer_config__json={"tokenizer_class": "BertTokenizer"}
    )
    yield beside(VOCABULARY, "split_special_tokens", tokenizer_config__json={"split_special_tokens": True})
    yield beside(VOCABULARY, "clean_text is false", tokenizer_config__json={"clean_text": False})
    yield beside(
        VOCABULARY,
        "tokenizer_class CamembertTokenizer",
        tokenizer_config__json={"tokenizer_class": "CamembertTokenizer"},
    )
    yield beside(
        VOCABULARY, "auto_map names Python code", tokenizer_config__json={"auto_map": {"AutoTokenizer": ["a.B", None]}}
    )


def family_settings():
    """Folders of encoders whose tokenizers are BERT's or RoBERTa's with a difference."""
    def of(model_type, **files):
        return {"config.json": {"model_type": model_type}, **{name.replace("__", "."): value for name, value in
                                                               files.items()}}

    cased, vocabulary = bert_json(False).to_str(), VOCABULARY["vocab.txt"]
    mpnet = vocabulary.replace("[PAD]\n", "<pad>\n").replace("[CLS]\n", "<s>\n").replace("[SEP]\n", "</s>\n")
    mpnet = mpnet.replace("[MASK]\n", "<mask>\n")
    yield of("distilbert", vocab__txt=vocabulary), None
    yield of("distilbert", vocab__txt=vocabulary,
             tokenizer_config__json={"tokenizer_class": "DistilBertTokenizer"}), None
    yield of("distilbert", tokenizer__json=cased,
             tokenizer_config__json={"tokenizer_class": "DistilBertTokenizer", "do_lower_case": False}), None
    yield of("distilbert", tokenizer__json=cased,
             tokenizer_config__json={"tokenizer_class": "DistilBertTokenizer", "do_lower_case": True}), \
        "DistilBertTokenizer follows this one"
    yield of("electra", vocab__txt=vocabulary, tokenizer_config__json={
        "do_lower_case": True, "model_max_length": 1000000000000000019884624838656}), None
    yield of("mpnet", vocab__txt=mpnet), None
    yield of("mpnet", vocab__txt=mpnet, tokenizer_config__json={"mask_token": "<mask>", "do_lower_case": False}), None
    yield of("modernbert", tokenizer__json=roberta_json(False).to_str(),
             tokenizer_config__json={"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}), None


def settings_lines():
    from transformers import AutoTokenizer

    texts = [
        "Hello, the DRESS fits  <x> [MASK] un<y>affable",
        "CAF\u00c9 \u4e2d\u56fd Love <X>love [cls] [CLS]",
        "a b c d e f g h i j",
        " the <mask>",
    ]
    for files, refused in [*settings(), *family_settings()]:
        files = {name: text if isinstance(text, str) else json.dumps(text) for name, text in files.items()}
        yield line(files=files, **({"refused": refused} if refused else {}))
        if refused:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        for text in texts:
            yield line(text=text, ids=tokenizer(text)["input_ids"])
            yield line(text=text, max_len=7, ids=tokenizer(text, truncation=True, max_length=7)["input_ids"])


def golden():
    lines = []
    for i, tokenizer in enumerate(components()):
        lines.append(line(files={"tokenizer.json": tokenizer.to_str()}))
        lines += cases(tokenizer, TEXTS[::3] if i % 2 else TEXTS[1::3])
        lines += cases(tokenizer, random_texts(100 + i, 30))
    write("tokenizer_components.jsonl", lines)
    write("tokenizer_folders.jsonl", folders())
    write("tokenizer_settings.jsonl", settings_lines())
    lines = []
    for kind in ("cased", "uncased"):
        lines.append(line(folder=f"../shared/tokenizers/bert-base-{kind}"))
        tokenizer = bert(os.path.join(SHARED, f"bert-base-{kind}"), kind == "uncased")
        lines += cases(tokenizer, TEXTS)
    write("tokenizer_bert.jsonl", lines)
    folder = os.path.join(SHARED, "roberta-base")
    tokenizer = byte_level(os.path.join(folder, "vocab.json"), os.path.join(folder, "merges.txt"), True)
    head = line(folder="../shared/tokenizers/roberta-base")
    write("tokenizer_roberta.jsonl", [head, *cases(tokenizer, TEXTS), *cases(tokenizer, random_texts(2, 60))])


def classes():
    """What the library makes of each code point: the classes of src/data/text/unicode.h."""
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False,
                                       lowercase=False)
    strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True,
                                       lowercase=False)
    marks, bert_split = normalizers.StripAccents(), pre_tokenizers.BertPreTokenizer()
    gpt2, words = pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Whitespace()

    def count(pre_tokenizer, text):
        return len(pre_tokenizer.pre_tokenize_str(text))

    def flags(char):
        letter = count(gpt2, "a" + char) == 1
        space = count(words, char) == 0
        return (letter | (not letter and count(gpt2, "1" + char) == 1) << 1 | space << 2 |
                (not space and count(words, "a" + char) == 1) << 3 |
                (count(bert_split, "a" + char + "a") == 3) << 4 | (clean.normalize_str(char) == "") << 5 |
                (strip.normalize_str(char) == "") << 6 | (marks.normalize_str(char) == "") << 7)

    return [0 if 0xD800 <= code < 0xE000 else flags(chr(code)) for code in range(0x110000)]


if __name__ == "__main__":
    golden()
