"""pydotcompute.ring_kernels.lifecycle: the same names as in the package."""
from ..kernels import RingKernelConfig
from ..runtime import KernelContext, KernelState, RingKernel, managed_kernel

__all__ = ["KernelContext", "KernelState", "RingKernel", "RingKernelConfig", "managed_kernel"]
