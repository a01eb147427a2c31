"""Writes a GGUF file that llama.cpp can serve: one layer of random weights and a tokenizer of single bytes, 0.1 MB."""
import random
import struct

WIDTH, INNER, CONTEXT = 32, 64, 512
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5  # types of values
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # types of tokens
TOKENS = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)] + [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
TOKENS += [("\u2581", NORMAL)]  # the blank that is put before a text


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    if kind == ARRAY:
        inner, items = value
        body = b"".join(text(item) if inner == STRING else struct.pack("<f" if inner == FLOAT32 else "<i", item) for item in items)
        packed = struct.pack("<IQ", inner, len(items)) + body
    elif kind == STRING:
        packed = text(value)
    else:
        packed = struct.pack("<I" if kind == UINT32 else "<f", value)
    return text(key) + struct.pack("<I", kind) + packed


def entries():
    return [
        entry("general.architecture", STRING, "llama"),
        entry("general.name", STRING, "tiny"),
        entry("general.alignment", UINT32, 32),
        entry("llama.context_length", UINT32, CONTEXT),
        entry("llama.embedding_length", UINT32, WIDTH),
        entry("llama.block_count", UINT32, 1),
        entry("llama.feed_forward_length", UINT32, INNER),
        entry("llama.attention.head_count", UINT32, 2),
        entry("llama.attention.head_count_kv", UINT32, 2),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        entry("llama.rope.dimension_count", UINT32, WIDTH // 2),
        entry("llama.vocab_size", UINT32, len(TOKENS)),
        entry("tokenizer.ggml.model", STRING, "llama"),
        entry("tokenizer.ggml.tokens", ARRAY, (STRING, [name for name, _ in TOKENS])),
        entry("tokenizer.ggml.scores", ARRAY, (FLOAT32, [0.0] * len(TOKENS))),
        entry("tokenizer.ggml.token_type", ARRAY, (INT32, [kind for _, kind in TOKENS])),
        entry("tokenizer.ggml.unknown_token_id", UINT32, 0),
        entry("tokenizer.ggml.bos_token_id", UINT32, 1),
        entry("tokenizer.ggml.eos_token_id", UINT32, 2),
    ]


def tensors():
    """Name and shape, the fastest dimension first."""
    square = [WIDTH, WIDTH]
    return {
        "token_embd.weight": [WIDTH, len(TOKENS)], "output_norm.weight": [WIDTH], "output.weight": [WIDTH, len(TOKENS)],
        "blk.0.attn_norm.weight": [WIDTH], "blk.0.attn_q.weight": square, "blk.0.attn_k.weight": square,
        "blk.0.attn_v.weight": square, "blk.0.attn_output.weight": square, "blk.0.ffn_norm.weight": [WIDTH],
        "blk.0.ffn_gate.weight": [WIDTH, INNER], "blk.0.ffn_up.weight": [WIDTH, INNER],
        "blk.0.ffn_down.weight": [INNER, WIDTH],
    }  # fmt: skip


def write_tiny_gguf(path):
    rnd, infos, data = random.Random(1), b"", b""
    for name, shape in tensors().items():
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        infos += struct.pack("<IQ", 0, len(data))  # 32-bit floats
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data += struct.pack(f"<{count}f", *([1.0] * count if len(shape) == 1 else (rnd.gauss(0, 0.1) for _ in range(count))))
        data += bytes(-len(data) % 32)
    values = entries()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors()), len(values)) + b"".join(values) + infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)
