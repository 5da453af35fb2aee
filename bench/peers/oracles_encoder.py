"""Makes models/hf/testdata and models/testdata/mpnet_buckets.npz: two random models of two layers with their hidden states,
by transformers in float64, and what sentence-transformers makes of some texts with
all-MiniLM-L6-v2 (the folder that make data-minilm fills, if it is there).

    python bench/peers/oracles_encoder.py models/hf/testdata data/minilm
"""

import json
import os
import random
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

OUT, MINILM = sys.argv[1], sys.argv[2]
SMALL = dict(vocab_size=48, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40)
LENGTHS = (7, 1, 16, 2, 29)


def randomise(model, dtype):
    """Parameters large enough that softmax and GELU matter, as dtype holds them."""
    torch.manual_seed(7)
    for name, p in model.named_parameters():
        spread = 0.15 if "LayerNorm" in name else 0.5 if "bias" in name else 1.0 if "embeddings" in name else 0.35
        p.data = (torch.randn(p.shape) * spread + (1.0 if name.endswith("LayerNorm.weight") else 0.0)).to(dtype).to(torch.float64)


def small(kind, config, model, dtype, prefix, shards):
    randomise(model, dtype)
    model.double().eval()
    folder = os.path.join(OUT, kind)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "1_Pooling"))
    config.architectures = [type(model).__name__]
    config.to_json_file(os.path.join(folder, "config.json"))
    # The pooler takes no part in sentence embeddings.
    state = {prefix + k: v.to(dtype).contiguous() for k, v in model.state_dict().items() if "pooler" not in k and "position_ids" not in k}
    names = sorted(state)
    if shards == 1:
        save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    else:
        where = {}
        for i in range(shards):
            file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
            part = names[i::shards]
            save_file({k: state[k] for k in part}, os.path.join(folder, file), metadata={"format": "pt"})
            where.update({k: file for k in part})
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
            json.dump({"metadata": {}, "weight_map": where}, f, indent=1, sort_keys=True)
    write(folder, "modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ])
    write(folder, "1_Pooling/config.json", {"word_embedding_dimension": 24, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True})
    write(folder, "sentence_bert_config.json", {"max_seq_length": 20, "do_lower_case": False})

    rng = np.random.default_rng(5)
    sequences = [rng.integers(3, config.vocab_size, n) for n in LENGTHS]
    sequences[2][4] = 1  # MPNet's padding token, in the middle of a text
    layers = [[] for _ in range(config.num_hidden_layers + 1)]
    with torch.no_grad():
        for s in sequences:
            states = model(input_ids=torch.tensor(s)[None], attention_mask=torch.ones(1, len(s)), output_hidden_states=True).hidden_states
            for to, h in zip(layers, states):
                to.append(h[0].numpy())
    hidden = np.stack([np.concatenate(h) for h in layers])
    np.savez_compressed(os.path.join(folder, "hidden.npz"), tokens=np.concatenate(sequences).astype(np.int32),
                        lengths=np.array(LENGTHS, np.int32), hidden=hidden)


def write(folder, name, what):
    with open(os.path.join(folder, name), "w") as f:
        json.dump(what, f, indent=1)
        f.write("\n")


def texts():
    """Texts of many kinds: reviews in the style of the audits, spellings, scripts, lengths."""
    rng = random.Random(11)
    subjects = ["My doctor", "The pharmacist", "This medicine", "The second dose", "A friend of mine", "The clinic", "Nobody", "The generic"]
    verbs = ["helped with", "made worse", "did nothing for", "finally ended", "caused", "was blamed for", "is said to treat"]
    things = ["my migraine", "the joint pain", "insomnia", "a mild rash", "high blood pressure", "the nausea", "my anxiety", "weight gain"]
    tails = ["within two weeks.", "and I'd take it again!", "although it costs $49.99 a month.", "after 3.5 mg/day;", "(10/10)", "...", "which surprised us", "?!"]
    out = ["", " ", "a", "I", "the", "?", "[CLS] [SEP] [PAD] [MASK]", "hello world", "Hello, World!", "don't can't won't", "state-of-the-art",
           "Ärger über Öl", "naïve café résumé", "¿Qué tal?", "我喜欢吃苹果", "日本語の文章です。", "Привет, как дела?", "مرحبا بالعالم", "שלום עולם",
           "한국어 문장", "emoji 😀 and 👩‍👩‍👧‍👦 family", "e\u0301 combining", "ﬁ ligature", "zero\u200bwidth", "tab\tand\nnewline\r\nhere",
           "supercalifragilisticexpialidocious", "pneumonoultramicroscopicsilicovolcanoconiosis", "x" * 120, "1234567890", "3.14159", "2026-12-01",
           "https://example.org/path?q=1&r=2#frag", "user@example.com", "C++ and C# and F#", "\\frac{a}{b}", "<html><body>hi</body></html>",
           "ALL CAPS SENTENCE", "mIxEd CaSe", "  leading and trailing  ", "multiple     spaces", "a" * 20 + " " + "b" * 20, "ĳ ŋ ß ſ", "½ ² ³ ™ ©"]
    while len(out) < 200:
        n = rng.choice([1, 1, 1, 2, 2, 3, 5, 8])
        out.append(" ".join(f"{rng.choice(subjects)} {rng.choice(verbs)} {rng.choice(things)} {rng.choice(tails)}" for _ in range(n)))
    for n in (20, 24, 28, 40, 60):  # some beyond 256 tokens
        out.append(" ".join(f"{rng.choice(subjects)} {rng.choice(verbs)} {rng.choice(things)} {rng.choice(tails)}" for _ in range(n)))
    out.append("word " * 254)
    out.append("word " * 255)
    out.append("好" * 300)
    return out


def minilm():
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(MINILM, device="cpu")
    sentences = texts()
    # One at a time: no padding takes part.
    vectors = np.concatenate([model.encode([s], convert_to_numpy=True, show_progress_bar=False) for s in sentences])
    ids = [model.tokenize([s])["input_ids"][0].tolist() for s in sentences]
    with open(os.path.join(OUT, "minilm.json"), "w") as f:
        json.dump({"texts": sentences, "ids": ids}, f, ensure_ascii=False, separators=(",", ":"))
    save_file({"vectors": torch.from_numpy(vectors).half()}, os.path.join(OUT, "minilm.safetensors"))
    print("wrote", len(sentences), "texts and their vectors")


small("bert", BertConfig(max_position_embeddings=32, type_vocab_size=2, **SMALL), BertModel(
    BertConfig(max_position_embeddings=32, type_vocab_size=2, attn_implementation="eager", **SMALL), add_pooling_layer=False), torch.float32, "", 1)
small("mpnet", MPNetConfig(max_position_embeddings=34, **SMALL), MPNetModel(
    MPNetConfig(max_position_embeddings=34, attn_implementation="eager", **SMALL), add_pooling_layer=False), torch.float16, "mpnet.", 2)
# Buckets of relative positions, key minus query.
distance = torch.arange(-600, 601)
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder  # noqa: E402

np.savez_compressed(os.path.join(OUT, "..", "..", "testdata", "mpnet_buckets.npz"), distance=distance.numpy().astype(np.int32),
                    bucket=MPNetEncoder.relative_position_bucket(distance, num_buckets=32).numpy().astype(np.int32))
if os.path.exists(os.path.join(MINILM, "model.safetensors")):
    minilm()
else:
    print(f"no {MINILM}/model.safetensors: the values for MiniLM stay as they are (make data-minilm)")
