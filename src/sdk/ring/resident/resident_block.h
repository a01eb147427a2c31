// Layout of the memory shared by host and GPU, and the GPU's code. Offsets are in bytes; the PTX repeats them
// as numbers.
#pragma once

#include <cstddef>

#include <gpulens/resident_kernel.h>

#include "sources/cuda/cuda_library.h"

namespace gpulens::ring {

// Words of the telemetry, 64 bytes that only the GPU writes. kSequence is odd during a write.
enum TelemetryWord : size_t {
  kProcessed,
  kAnswered,
  kDepth,
  kLatencySum,
  kLatencyMost,
  kLatencyLeast,
  kHeartbeats,
  kSequence
};
// Counters of both sides, each on its own cache line; they only grow.
inline constexpr size_t kStopAt = 64, kSentAt = 128, kTakenAt = 192, kRepliedAt = 256, kReceivedAt = 320;
inline constexpr size_t kRingsAt = 512;  // messages, then the same number of replies

// Kernel for one thread. block: the shared memory; mask: number of messages in a ring, minus 1; a reply is
// message * multiply + add. sm_60 is the first architecture with system-wide fences, so that both sides may
// poll; the driver compiles the code for later GPUs.
inline constexpr const char* kResidentEntry = "gpulens_resident";
inline constexpr const char* kResidentPtx = R"ptx(
.version 6.0
.target sm_60
.address_size 64

.visible .entry gpulens_resident(.param .u64 p_block, .param .u64 p_mask, .param .u64 p_multiply, .param .u64 p_add)
{
  .reg .u64 block, mask, multiply, add, messages, replies;
  .reg .u64 stop, sent, taken, replied, received, at, message, reply, begun, took;
  .reg .u64 sum, most, least, beats, sequence, t;
  .reg .pred p;

  ld.param.u64 block, [p_block];
  ld.param.u64 mask, [p_mask];
  ld.param.u64 multiply, [p_multiply];
  ld.param.u64 add, [p_add];
  cvta.to.global.u64 block, block;
  add.u64 messages, block, 512;
  add.u64 t, mask, 1;
  shl.b64 t, t, 3;
  add.u64 replies, messages, t;
  mov.u64 taken, 0;
  mov.u64 replied, 0;
  mov.u64 sum, 0;
  mov.u64 most, 0;
  mov.u64 least, 0xffffffffffffffff;
  mov.u64 beats, 0;
  mov.u64 sequence, 0;

look:
  ld.volatile.global.u64 stop, [block+64];
  setp.ne.u64 p, stop, 0;
  @p bra ended;
  add.u64 beats, beats, 1;
  and.b64 t, beats, 1023;
  setp.ne.u64 p, t, 0;
  @p bra quiet;
  st.volatile.global.u64 [block+48], beats;
quiet:
  ld.volatile.global.u64 sent, [block+128];
  setp.eq.u64 p, sent, taken;
  @p bra look;
  membar.sys;
  mov.u64 begun, %globaltimer;
  and.b64 at, taken, mask;
  shl.b64 at, at, 3;
  add.u64 at, at, messages;
  ld.volatile.global.u64 message, [at];
  mad.lo.u64 reply, message, multiply, add;

room:
  ld.volatile.global.u64 received, [block+320];
  sub.u64 t, replied, received;
  setp.le.u64 p, t, mask;
  @p bra answer;
  ld.volatile.global.u64 stop, [block+64];
  setp.ne.u64 p, stop, 0;
  @p bra ended;
  bra room;

answer:
  membar.sys;
  and.b64 at, replied, mask;
  shl.b64 at, at, 3;
  add.u64 at, at, replies;
  st.volatile.global.u64 [at], reply;
  add.u64 taken, taken, 1;
  add.u64 replied, replied, 1;
  mov.u64 took, %globaltimer;
  sub.u64 took, took, begun;
  add.u64 sum, sum, took;
  max.u64 most, most, took;
  min.u64 least, least, took;

  add.u64 sequence, sequence, 1;
  st.volatile.global.u64 [block+56], sequence;
  membar.sys;
  st.volatile.global.u64 [block], taken;
  st.volatile.global.u64 [block+8], replied;
  sub.u64 t, sent, taken;
  st.volatile.global.u64 [block+16], t;
  st.volatile.global.u64 [block+24], sum;
  st.volatile.global.u64 [block+32], most;
  st.volatile.global.u64 [block+40], least;
  st.volatile.global.u64 [block+48], beats;
  membar.sys;
  add.u64 sequence, sequence, 1;
  st.volatile.global.u64 [block+56], sequence;
  membar.sys;
  st.volatile.global.u64 [block+192], taken;
  st.volatile.global.u64 [block+256], replied;
  bra look;

ended:
  membar.sys;
  ret;
}
)ptx";

}  // namespace gpulens::ring

namespace gpulens {

// Launches with a given driver, for tests.
struct ResidentAccess {
  static Result<ResidentKernel> Launch(const cuda::CudaSymbols& cuda, const ResidentOptions& options);
};

}  // namespace gpulens
