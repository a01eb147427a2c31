"""Keeps GPU 0 busy with multiplications for some seconds: cuda_load.py SECONDS. Needs the driver's libcuda alone.

Prints "busy" when the first kernel runs. Exit 3 when there is no usable CUDA device, with the reason on stderr.
"""
import ctypes
import sys
import time

PTX = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 rounds)
{
  .reg .f32 %f<3>;
  .reg .u32 %r<7>;
  .reg .u64 %rd<4>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [rounds];
  mov.u32 %r2, 0;
  mov.f32 %f1, 0f3F800000;
  mov.f32 %f2, 0f3F7FFFFF;
again:
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f1;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f1;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra again;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %ntid.x;
  mad.lo.u32 %r6, %r4, %r5, %r3;
  mul.wide.u32 %rd2, %r6, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.f32 [%rd3], %f1;
  ret;
}
\0"""
BLOCKS, THREADS, ROUNDS = 2048, 256, 20000


class Cuda:
    """The driver API, each call checked."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            code = function(*arguments)
            if code != 0:
                raise OSError(f"{name}: CUDA error {code}")
        return call


def run(seconds):
    cuda = Cuda()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    module, kernel, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda.cuInit(0)
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)
    cuda.cuModuleLoadData(ctypes.byref(module), PTX)
    cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin")
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(BLOCKS * THREADS * 4))
    rounds = ctypes.c_uint32(ROUNDS)
    parameters = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(rounds))
    end, printed = time.monotonic() + seconds, False
    while time.monotonic() < end:
        cuda.cuLaunchKernel(kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, parameters, None)
        cuda.cuCtxSynchronize()
        if not printed:
            print("busy", flush=True)
            printed = True


if __name__ == "__main__":
    try:
        run(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
    except (OSError, AttributeError) as error:
        print(f"cuda_load: {error}", file=sys.stderr)
        sys.exit(3)
