"""Floating-point operations of a model, and the fraction of a GPU's peak that they use."""
import re
from typing import Dict, Optional, Tuple

from ... import efficiency as _efficiency
from ...errors import InvalidArgumentError as _InvalidArgumentError
from .gpu_specs import find_spec as _find_spec

__all__ = ["GPU_PEAK_TFLOPS_BF16", "MODEL_PARAMS_B", "compute_mfu", "estimate_flops", "estimate_flops_no_kv_cache"]

# Billions of parameters that work on a token. Add your own models here.
MODEL_PARAMS_B: Dict[str, float] = {"mixtral-8x7b": 12.9, "mixtral-8x22b": 39.1}

def _peak_tflops(name: str) -> Optional[float]:
    """Returns the dense peak of bf16, or of fp16 where there is no bf16; None where it is unknown."""
    spec = _find_spec(name)
    peaks = [] if spec is None else [spec.peak_flops(precision) / 1e12 for precision in ("bf16", "fp16")]
    return next((peak for peak in peaks if peak == peak), None)


# OpenJarvis' keys that are in the table of gpulens, with its figures; T4 and V100, which have no bf16: fp16. Add your own
# boards here.
GPU_PEAK_TFLOPS_BF16: Dict[str, float] = {
    key: peak
    for key in ("H100", "H200", "A100", "A10G", "L4", "L40", "L40S", "T4", "V100", "4090", "3090")
    for peak in [_peak_tflops(key)]
    if peak is not None
}

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

    gpu_name: a key of GPU_PEAK_TFLOPS_BF16 ("H100"), a full product name, a PCI ID, or one of OpenJarvis'
        other short names; the peak is the dense one of bf16, or of fp16 where there is no bf16.

    Returns 0.0 for an unknown GPU and where duration_s is not positive. Raises InvalidArgumentError for
    fewer than one GPU.
    """
    if num_gpus < 1:
        raise _InvalidArgumentError(f"num_gpus must be at least 1; got {num_gpus}")
    peak = next((known for key, known in GPU_PEAK_TFLOPS_BF16.items() if key.lower() == gpu_name.lower()), _peak_tflops(gpu_name))
    if peak is None:
        return 0.0
    ratio = _efficiency.mfu(flops, duration_s, peak_flops=peak * 1e12, gpu_count=num_gpus)
    return ratio if ratio == ratio else 0.0
