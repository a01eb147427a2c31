/* libcuda.so.1 of tests: entries whose first instruction is chosen by FIRST. A call spins for its first argument, in
 * nanoseconds. Ex calls cuLaunchKernel inside. */
#include <time.h>

#if defined(__x86_64__)
#define JUMP "  jmp spin\n"
#define CALL_LAUNCH "  push %rbp\n  call cuLaunchKernel\n  pop %rbp\n  ret\n"
#define SPACE "@"
#else
#define JUMP "  b spin\n"
#define CALL_LAUNCH "  b cuLaunchKernel\n"
#define SPACE "%"
#endif

#define ENTRY(name, body) \
  asm(".text\n.globl " #name "\n.type " #name ", " SPACE "function\n" #name ":\n" FIRST body ".size " #name ", . - " #name "\n"); \
  unsigned long name(unsigned long ns)

static unsigned long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (unsigned long)time.tv_sec * 1000000000 + (unsigned long)time.tv_nsec;
}

__attribute__((visibility("hidden"))) unsigned long spin(unsigned long ns) {
  if (ns == 0) return 0;
  for (const unsigned long end = now() + ns; now() < end;) {
  }
  return 0;
}

ENTRY(cuLaunchKernel, JUMP);
ENTRY(cuLaunchKernel_ptsz, JUMP);
ENTRY(cuLaunchKernelEx, CALL_LAUNCH);
ENTRY(cuLaunchCooperativeKernel, JUMP);
ENTRY(cuGraphLaunch, JUMP);
ENTRY(cuStreamSynchronize, JUMP);
ENTRY(cuEventSynchronize, JUMP);
ENTRY(cuCtxSynchronize, JUMP);
