/* The entry points of the fake libcuda, in one of the styles that compilers and NVIDIA's libraries use. The first
   instruction decides whether the kernel emulates a probe on it or must single-step it.
     -DFAKE_CUDA_PUSH     push %rbp                    stp x29, x30, [sp, #-16]!
     -DFAKE_CUDA_NOP5     five-byte nop                nop
     -DFAKE_CUDA_ENDBR    endbr64, push %rbp           bti c, stp
     -DFAKE_CUDA_SUB      sub $8, %rsp                 sub sp, sp, #16
     -DFAKE_CUDA_MOVABS   movabs $0x1122334455667788, %rax    adrp x16 (both need a single step) */
#if defined(__x86_64__)
.macro entry name
  .globl \name
  .type \name, @function
  .p2align 4
\name:
#if defined(FAKE_CUDA_PUSH)
  push %rbp
  pop %rbp
#elif defined(FAKE_CUDA_NOP5)
  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
#elif defined(FAKE_CUDA_ENDBR)
  endbr64
  push %rbp
  pop %rbp
#elif defined(FAKE_CUDA_SUB)
  sub $8, %rsp
  add $8, %rsp
#elif defined(FAKE_CUDA_MOVABS)
  movabs $0x1122334455667788, %rax
#else
#error "no style"
#endif
  jmp FakeCuda_\name
  .size \name, . - \name
.endm
#elif defined(__aarch64__)
.macro entry name
  .globl \name
  .type \name, %function
  .p2align 4
\name:
#if defined(FAKE_CUDA_PUSH)
  stp x29, x30, [sp, #-16]!
  ldp x29, x30, [sp], #16
#elif defined(FAKE_CUDA_NOP5)
  nop
#elif defined(FAKE_CUDA_ENDBR)
  hint #34
  stp x29, x30, [sp, #-16]!
  ldp x29, x30, [sp], #16
#elif defined(FAKE_CUDA_SUB)
  sub sp, sp, #16
  add sp, sp, #16
#elif defined(FAKE_CUDA_MOVABS)
  adrp x16, FakeCuda_\name
#else
#error "no style"
#endif
  b FakeCuda_\name
  .size \name, . - \name
.endm
#endif
  .text
  entry cuInit
  entry cuDriverGetVersion
  entry cuDeviceGetCount
  entry cuDeviceGet
  entry cuDeviceGetPCIBusId
  entry cuCtxCreate_v2
  entry cuDevicePrimaryCtxRetain
  entry cuCtxSetCurrent
  entry cuCtxGetCurrent
  entry cuStreamCreate
  entry cuMemAlloc_v2
  entry cuMemFree_v2
  entry cuLaunchKernel
  entry cuLaunchKernel_ptsz
  entry cuLaunchKernelEx
  entry cuLaunchKernelEx_ptsz
  entry cuLaunchCooperativeKernel
  entry cuLaunchCooperativeKernel_ptsz
  entry cuGraphLaunch
  entry cuGraphLaunch_ptsz
  entry cuStreamSynchronize
  entry cuStreamSynchronize_ptsz
  entry cuEventSynchronize
  entry cuCtxSynchronize
  entry cuCtxSynchronize_v2
  entry cuGetProcAddress
  entry cuGetProcAddress_v2
  .section .note.GNU-stack, "", %progbits
