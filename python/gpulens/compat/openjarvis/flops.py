"""Floating-point operations of a model, and the fraction of a GPU's peak that they use."""
import re
from typing import Dict, Tuple

from ... import efficiency as _efficiency
from ...errors import InvalidArgumentError as _InvalidArgumentError
from .gpu_specs import find_spec as _find_spec

__all__ = ["MODEL_PARAMS_B", "compute_mfu", "estimate_flops", "estimate_flops_no_kv_cache"]

# Billions of parameters that work on a token. Add your own models here.
MODEL_PARAMS_B: Dict[str, float] = {"mixtral-8x7b": 12.9, "mixtral-8x22b": 39.1}

# "8b" in llama-3.1-8b-instruct, qwen3:0.6b-fp16 or Qwen/Qwen3-8B; of a mixture "a3b", its active part.
_SIZE = re.compile(r"(?:^|[-_:/ ])(\d+(?:\.\d+)?)b(?=$|[-_:/ .])")
_ACTIVE = re.compile(r"(?:^|[-_:/ ])a(\d+(?:\.\d+)?)b(?=$|[-_:/ .])")
_MIXTURE = re.compile(r"\d+x\d+(?:\.\d+)?b")


def _params(model: str) -> float:
    name = model.lower()
    known = {key.lower(): value for key, value in MODEL_PARAMS_B.items()}
    short = re.sub(r"-(?:instruct|chat|base|it)(?:-.*)?$", "", name.rsplit("/", 1)[-1])
    for key in (name, short):
        if key in known:
            return known[key] * 1e9
    active = _ACTIVE.findall(name)
    sizes = active or ([] if _MIXTURE.search(name) else _SIZE.findall(name))
    if len(set(sizes)) != 1:
        raise _InvalidArgumentError(f"the number of parameters of {model!r} is unknown; add it to MODEL_PARAMS_B, in billions")
    return float(sizes[0]) * 1e9


def estimate_flops(model: str, input_tokens: int, output_tokens: int) -> Tuple[float, float]:
    """Returns (all operations, operations per token) of an inference with a KV cache: 2 for each parameter
    and token.

    The number of parameters is that of MODEL_PARAMS_B, else the one in the name itself ("llama-3.1-8b").
    Raises InvalidArgumentError where neither contains it; it is never guessed.
    """
    params, tokens = _params(model), input_tokens + output_tokens
    return _efficiency.forward_flops(params, tokens), _efficiency.forward_flops(params, 1) if tokens > 0 else 0.0


def estimate_flops_no_kv_cache(model: str, input_tokens: int, output_tokens: int) -> Tuple[float, float]:
    """Returns (all operations, mean per token) of an inference in which each token processes all preceding
    ones again."""
    params, tokens = _params(model), input_tokens + output_tokens
    total = params * tokens * (tokens + 1)
    return total, total / tokens if tokens > 0 else 0.0


def compute_mfu(flops: float, duration_s: float, gpu_name: str, num_gpus: int = 1) -> float:
    """Returns the model FLOPs utilisation: flops / (duration_s * peak * num_gpus), a ratio.

    gpu_name: a full product name, a PCI ID, or one of OpenJarvis' short names ("H100"); the peak is the
        dense one of bf16, or of fp16 where there is no bf16.

    Returns 0.0 for an unknown GPU and where duration_s is not positive. Raises InvalidArgumentError for
    fewer than one GPU.
    """
    if num_gpus < 1:
        raise _InvalidArgumentError(f"num_gpus must be at least 1; got {num_gpus}")
    spec = _find_spec(gpu_name)
    if spec is None:
        return 0.0
    peak = spec.peak_flops("bf16")
    if peak != peak:
        peak = spec.peak_flops("fp16")
    ratio = _efficiency.mfu(flops, duration_s, peak_flops=peak, gpu_count=num_gpus)
    return ratio if ratio == ratio else 0.0
