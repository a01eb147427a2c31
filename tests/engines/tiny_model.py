"""Writes the files of a model that has no weights worth the name: a tokenizer of single bytes and a configuration, enough
for an engine that only pretends to compute."""
import json

END = 256  # the token after the 256 bytes


def byte_letters():
    """The letter that byte-level tokenizers write for each byte: itself where it is printable, else from 256 upwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


def write_tiny_model(folder):
    """Prompts are as many tokens as they have bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    end = {"id": END, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
           "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    files = {
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {letter: n for n, letter in enumerate(byte_letters())}, "merges": []}},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "bos_token": "<end>",
            "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}"},
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 257, "hidden_size": 16,
            "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 16,
            "max_position_embeddings": 2048, "bos_token_id": END, "eos_token_id": END, "torch_dtype": "float32"},
        "generation_config.json": {"bos_token_id": END, "eos_token_id": END},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
