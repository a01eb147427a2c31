/* What the programs in the kernel (probes.bpf.c) and probe_session.cc share: the values of the maps. C, so
 * that clang's target bpf compiles it without any header. */
#pragma once

#ifdef __cplusplus
#include <cstdint>
namespace gpulens::bpf {
typedef uint64_t u64;
typedef uint32_t u32;
#else
typedef unsigned long long u64;
typedef unsigned int u32;
#endif

#define GPULENS_BUCKETS 124 /* job_page::kBuckets */
#define GPULENS_LIBRARIES 64
#define GPULENS_PREFIXES 16

/* Of process_value.flags. */
enum { WANTS_LAUNCHES = 1, WANTS_SYNCHRONIZES = 2, WANTS_DATA = 4, WAS_NOT_TIMED = 8 };

struct series_key {
  u32 tgid, function;
  u64 start;
};
struct series_value {
  u64 calls, timed, sum_ns, nested;
  u64 buckets[GPULENS_BUCKETS];
};
struct process_value {
  u64 start; /* boot time in ns */
  u64 ended; /* 0: it runs */
  u32 root, flags, execs;
  u32 library; /* slot + 1 of the file whose functions it calls; 0: any */
};
/* A call is timed when the 32 bits of its hashed number are at most `limit`; with `timing` 0 none is. */
struct library_value {
  u32 limit, timing;
};
struct library_calls {
  u64 calls, timed;
};
struct prefix {
  u64 text[2], mask[2];
};
struct settings_value {
  u32 prefixes, allow_seccomp;
  struct prefix prefix[GPULENS_PREFIXES];
};
enum { LOST_SERIES, LOST_PROCESSES, LOST_KINDS };
struct losses_value {
  u64 lost[LOST_KINDS];
};
struct data_key {
  u32 tgid, reserved;
  u64 start;
};
struct data_value {
  u64 count, sum_ns, short_count, short_ns, other_ns;
  u64 buckets[GPULENS_BUCKETS];
};
/* Of the main thread of a process whose waits are measured. Times are monotonic; 0: none. */
struct wait_state {
  struct data_key key;
  u64 off_at, on_at;
  u64 open_ns;  /* the wait that may go on */
  u64 gap_ns;   /* on the processor or ready to run since its last piece */
  u64 busy_ns;  /* on the processor since then */
  u64 other_ns; /* asleep for another reason since then */
  u32 open, asleep, may_be_data, by_loader;
};
struct open_call {
  u64 begin;
};

#ifdef __cplusplus
}
#endif
