"""Values on devices and norms of gradients: the PyTorch-specific part of gpulens.training.

PyTorch is used only when the program has imported it: importing it takes seconds, so this package never
does.
"""
from __future__ import annotations

import math
import sys
import threading
from collections.abc import Mapping


def torch_module():
    """Returns the module torch, or None while the program has not imported it."""
    return sys.modules.get("torch")


class Pending:
    """Numbers that are being copied from a device to the host.

    Must be created on the thread that computes the values.
    """

    def __init__(self, tensors):
        torch = torch_module()
        # With non_blocking the copy goes to pinned memory, after the kernels that make the value and in parallel with later ones.
        self._copies = [tensor.detach().to("cpu", non_blocking=True) for tensor in tensors]
        self._event = None
        device = next((t.device for t in tensors if t.device.type == "cuda"), None)
        if device is not None:
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(device))

    def ready(self):
        return self._event is None or self._event.query()

    def read(self):
        """Returns the numbers; waits until they have been copied."""
        if self._event is not None:
            self._event.synchronize()
        return [float(copy) for copy in self._copies]


class Later:
    """Calls functions with numbers as soon as these have reached the host, in order. Only flush() waits
    for them.

    Thread-safe.
    """

    _MOST = 64  # beyond it the oldest is awaited: a caller this far behind waits in any case

    def __init__(self):
        self._lock = threading.Lock()
        self._waiting = []

    def do(self, then, *values):
        """Calls `then` with one float for each value; a value may be a number or a tensor of one element."""
        if any(on_device(value) for value in values):
            with self._lock:
                self._waiting.append((Pending(values), then))
            return self.settle()
        then(*(float(value) for value in values))

    def settle(self, wait=False):
        with self._lock:
            while self._waiting and (wait or len(self._waiting) > self._MOST or self._waiting[0][0].ready()):
                pending, then = self._waiting.pop(0)
                then(*pending.read())


def on_device(value):
    return getattr(getattr(value, "device", None), "type", "cpu") != "cpu"


def is_tensor(value):
    torch = torch_module()
    return torch is not None and isinstance(value, torch.Tensor)


def gradients_of(model):
    """Yields the gradients of a model, by what it has: parameters(), or parameters or gradients as an
    iterable or a mapping, also of mappings. A parameter is an object with `grad`; without one, None: no
    gradient."""
    parameters = model.parameters() if hasattr(model, "parameters") else model
    for parameter in parameters.values() if isinstance(parameters, Mapping) else parameters:
        if isinstance(parameter, Mapping):
            yield from gradients_of(parameter)
            continue
        gradient = getattr(parameter, "grad", None) if hasattr(parameter, "grad") and not _is_leafless(parameter) else parameter
        if gradient is None:
            continue
        if hasattr(gradient, "to_local"):  # a DTensor: the shard of this rank
            gradient = gradient.to_local()
        if getattr(gradient, "is_sparse", False):
            gradient = gradient.coalesce().values()
        yield gradient


def _is_leafless(tensor):
    """Returns whether the argument is itself a gradient: a tensor that requires no gradient."""
    return is_tensor(tensor) and not tensor.requires_grad


def torch_norm(gradients):
    torch = torch_module()
    with torch.no_grad():
        first = gradients[0].device
        norms = torch.stack([norm.to(device=first, dtype=torch.float32) for norm in _norms_of_each(torch, gradients)])
        finite = torch.isfinite(norms)
        kept = torch.where(finite, norms, torch.zeros_like(norms))
        return torch.linalg.vector_norm(kept), (~finite).sum()


def _norms_of_each(torch, gradients):
    """Yields tensors with the norm of each gradient.

    Half-precision values are accumulated as float32: the square of 300 exceeds the range of float16.
    """
    wide = {torch.float32, torch.float64}
    groups = {}
    for gradient in gradients:
        groups.setdefault((gradient.device, gradient.dtype), []).append(gradient)
    for (_, dtype), group in groups.items():
        if dtype in wide and hasattr(torch, "_foreach_norm"):
            yield from torch._foreach_norm(group, 2)
        else:
            yield from (torch.linalg.vector_norm(gradient, dtype=torch.float32) for gradient in group)


def plain_norm(gradients):
    """Returns the norm over the finite gradients, and the number of the others, without PyTorch.

    A gradient is a number, an array (of NumPy, CuPy or any other library with their methods), an object
    with norm(), or a sequence of numbers or sequences.
    """
    norms = [_norm_of(gradient) for gradient in gradients]
    finite = [norm for norm in norms if math.isfinite(norm)]
    return math.hypot(*finite), len(norms) - len(finite)


def _norm_of(gradient):
    if all(hasattr(gradient, name) for name in ("ravel", "astype", "dot", "dtype")):
        # One reduction where the array is, whatever its size; half precision and integers would overflow in it.
        flat = gradient.ravel()
        flat = abs(flat).astype("float64") if getattr(flat.dtype, "kind", "f") == "c" else flat.astype("float64")
        return math.sqrt(float(flat.dot(flat)))
    if callable(getattr(gradient, "norm", None)):
        return float(gradient.norm())
    if not hasattr(gradient, "__iter__"):
        return abs(float(gradient))
    return math.hypot(*(float(value) for value in _flat(gradient)))


def _flat(values):
    for value in values:
        if hasattr(value, "__iter__"):
            yield from _flat(value)
        else:
            yield value
