/* Programs in the kernel. See probe_session.h for what they measure, shared.h for their maps. They include no header
 * of the kernel: what they read of its structures is found by name when they are loaded (CO-RE). */
#include "shared.h"

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define inlined static inline __attribute__((always_inline))
#define CO_RE __attribute__((preserve_access_index))
#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))

typedef _Bool bool;
enum { HASH = 1, ARRAY = 2, PERCPU_ARRAY = 6, TASK_STORAGE = 29 };
enum { NOEXIST = 1, NO_PREALLOC = 1, STORAGE_CREATE = 1 };

static void *(*lookup)(void *map, const void *key) = (void *)1;
static long (*update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*monotonic_ns)(void) = (void *)5;
static u64 (*current_pid_tgid)(void) = (void *)14;
static long (*current_comm)(void *into, u32 size) = (void *)16;
static long (*read_kernel)(void *into, u32 size, const void *from) = (void *)113;
static void *(*this_cpu)(const void *variable) = (void *)154;
static void *(*storage_of)(void *map, void *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*current_task)(void) = (void *)158;
static struct pt_regs *(*task_registers)(struct task_struct *task) = (void *)175;
static u64 (*attach_cookie)(void *ctx) = (void *)174;

struct seccomp {
  int mode;
} CO_RE;
struct thread_struct {
  unsigned long features;
} CO_RE;
typedef struct {
  int counter;
} CO_RE atomic_t;
struct signal_struct {
  atomic_t live;
} CO_RE;
struct thread_info {
  u64 preempt_count;
} CO_RE;
struct pt_regs {
  unsigned long orig_ax;
} CO_RE;
struct task_struct {
  struct thread_info thread_info;
  unsigned int __state;
  int pid, tgid;
  u64 start_boottime;
  struct task_struct *group_leader;
  struct signal_struct *signal;
  struct seccomp seccomp;
  struct thread_struct thread;
  char comm[16];
} CO_RE;

extern bool bpf_session_is_return(void) __ksym __weak;
extern long *bpf_session_cookie(void) __ksym __weak;
extern const int __preempt_count __ksym __weak;
struct pcpu_hot {
  int preempt_count;
} CO_RE;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

#define INTERRUPTED 0xFF0100 /* of a preempt count: NMI, hard interrupt, soft interrupt that is served */

/* Set before the programs are loaded. */
const volatile u32 switch_has_state = 0;
const struct series_value no_series = {};
const struct data_value no_data = {};

struct {
  __uint(type, HASH);
  __uint(max_entries, 2048);
  __uint(map_flags, NO_PREALLOC);
  __type(key, struct series_key);
  __type(value, struct series_value);
} series SEC(".maps");
struct {
  __uint(type, HASH);
  __uint(max_entries, 4096);
  __type(key, u32);
  __type(value, struct process_value);
} processes SEC(".maps");
struct {
  __uint(type, ARRAY);
  __uint(max_entries, GPULENS_LIBRARIES);
  __type(key, u32);
  __type(value, struct library_value);
} libraries SEC(".maps");
struct {
  __uint(type, ARRAY);
  __uint(max_entries, GPULENS_LIBRARIES);
  __type(key, u32);
  __type(value, struct library_calls);
} calls_of_libraries SEC(".maps");
struct {
  __uint(type, ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct settings_value);
} settings SEC(".maps");
struct {
  __uint(type, ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct losses_value);
} losses SEC(".maps");
struct {
  __uint(type, HASH);
  __uint(max_entries, 4096);
  __uint(map_flags, NO_PREALLOC);
  __type(key, struct data_key);
  __type(value, struct data_value);
} data_waits SEC(".maps");
struct {
  __uint(type, TASK_STORAGE);
  __uint(map_flags, NO_PREALLOC);
  __type(key, int);
  __type(value, struct wait_state);
} wait_states SEC(".maps");
struct {
  __uint(type, TASK_STORAGE);
  __uint(map_flags, NO_PREALLOC);
  __type(key, int);
  __type(value, struct open_call);
} open_calls SEC(".maps");
struct {
  __uint(type, PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, u64);
} switches SEC(".maps");

inlined void lose(u32 kind) {
  u32 zero = 0;
  struct losses_value *value = lookup(&losses, &zero);
  if (value && kind < LOST_KINDS) __sync_fetch_and_add(&value->lost[kind], 1);
}

/* The bucket of job_page::Histogram: four a doubling. */
inlined u32 bucket_of(u64 ns) {
  u64 high = ns, mantissa;
  u32 doubling = 0, at;
  if (ns <= 64) return 0;
  if (high >> 32) doubling += 32, high >>= 32;
  if (high >> 16) doubling += 16, high >>= 16;
  if (high >> 8) doubling += 8, high >>= 8;
  if (high >> 4) doubling += 4, high >>= 4;
  if (high >> 2) doubling += 2, high >>= 2;
  if (high >> 1) doubling += 1;
  mantissa = ns << (63 - doubling);
  at = (doubling - 6) * 4 + (mantissa > 0x9837F0518DB8A96FULL) + (mantissa > 0xB504F333F9DE6484ULL) +
       (mantissa > 0xD744FCCAD69D6AF4ULL);
  if (mantissa == 1ULL << 63) at -= 1;
  return at < GPULENS_BUCKETS ? at : GPULENS_BUCKETS - 1;
}

inlined struct series_value *series_of(const struct series_key *key) {
  struct series_value *found = lookup(&series, key);
  if (found) return found;
  update(&series, key, &no_series, NOEXIST); /* another thread may have been first */
  found = lookup(&series, key);
  if (!found) lose(LOST_SERIES);
  return found;
}

/* Whether the end of a call must not be probed in this process. */
inlined bool end_is_unsafe(struct task_struct *task) {
  u32 zero = 0;
  const struct settings_value *value = lookup(&settings, &zero);
  if (__builtin_preserve_field_info(task->seccomp.mode, 2) && task->seccomp.mode == 2 &&
      !(value && value->allow_seccomp))
    return 1;
  return __builtin_preserve_field_info(task->thread.features, 2) && (task->thread.features & 1);
}

/* Counts a call. Returns when its end is to be measured; else 0. */
inlined u64 begin_call(void *ctx, bool can_time) {
  u64 cookie = attach_cookie(ctx), number, now;
  u32 slot = cookie >> 8 & (GPULENS_LIBRARIES - 1), tgid = current_pid_tgid() >> 32;
  struct library_value *library = lookup(&libraries, &slot);
  struct library_calls *all = lookup(&calls_of_libraries, &slot);
  struct series_key key = {.tgid = tgid, .function = cookie & 0xff};
  struct process_value *process;
  struct series_value *counted;
  struct task_struct *task;
  struct open_call *open;
  if (!library || !all) return 0;
  __sync_fetch_and_add(&all->calls, 1);
  process = lookup(&processes, &tgid);
  if (!process || process->ended || !(process->flags & (key.function < 4 ? WANTS_LAUNCHES : WANTS_SYNCHRONIZES))) return 0;
  /* Two overlays of file systems show one file as two, and each has its probes. */
  if (process->library && process->library != slot + 1) return 0;
  key.start = process->start;
  counted = series_of(&key);
  if (!counted) return 0;
  number = __sync_fetch_and_add(&counted->calls, 1);
  /* Multiples of the golden ratio: no period of the program's calls hides from it. */
  if (!can_time || !library->timing || (u32)(number * 0x9E3779B1u) > library->limit) return 0;
  task = current_task();
  if (end_is_unsafe(task)) {
    if (!(process->flags & WAS_NOT_TIMED)) process->flags |= WAS_NOT_TIMED;
    return 0;
  }
  __sync_fetch_and_add(&all->timed, 1);
  now = monotonic_ns();
  open = storage_of(&open_calls, task, 0, STORAGE_CREATE);
  if (open && open->begin) __sync_fetch_and_add(&counted->nested, 1);
  else if (open) open->begin = now;
  return now;
}

inlined void end_call(void *ctx, u64 begin) {
  u64 now = monotonic_ns(), ns = now - begin;
  u32 tgid = current_pid_tgid() >> 32, bucket;
  struct series_key key = {.tgid = tgid, .function = attach_cookie(ctx) & 0xff};
  struct open_call *open = storage_of(&open_calls, current_task(), 0, 0);
  struct process_value *process = lookup(&processes, &tgid);
  struct series_value *timed;
  if (open && open->begin == begin) open->begin = 0;
  if (!process) return;
  key.start = process->start;
  timed = lookup(&series, &key);
  if (!timed || now < begin) return;
  bucket = bucket_of(ns);
  if (bucket < GPULENS_BUCKETS) __sync_fetch_and_add(&timed->buckets[bucket], 1);
  __sync_fetch_and_add(&timed->sum_ns, ns);
  __sync_fetch_and_add(&timed->timed, 1);
}

/* Begin and end of a call; 1 at the begin: its end is not probed. */
SEC("uprobe")
int call_session(void *ctx) {
  u64 *begin = (u64 *)bpf_session_cookie();
  if (!begin) return 1;
  if (bpf_session_is_return()) {
    end_call(ctx, *begin);
    return 0;
  }
  *begin = begin_call(ctx, 1);
  return *begin == 0;
}

SEC("uprobe")
int call_multi(void *ctx) {
  begin_call(ctx, 0);
  return 0;
}

SEC("uprobe")
int call_perf(void *ctx) {
  begin_call(ctx, 0);
  return 0;
}

SEC("tp_btf/sched_process_fork")
int process_forked(u64 *ctx) {
  struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
  u32 tgid = parent->tgid, new_tgid = child->tgid;
  struct process_value *from = lookup(&processes, &tgid);
  struct process_value value = {};
  struct wait_state *state;
  struct data_key key = {};
  if (!from || from->ended || child->pid != child->tgid) return 0;
  value.start = child->start_boottime;
  value.root = from->root;
  value.library = from->library;
  value.flags = from->flags & (WANTS_LAUNCHES | WANTS_SYNCHRONIZES | WANTS_DATA);
  if (update(&processes, &new_tgid, &value, 0)) {
    lose(LOST_PROCESSES);
    return 0;
  }
  if (!(value.flags & WANTS_DATA)) return 0;
  key.tgid = new_tgid;
  key.start = value.start;
  update(&data_waits, &key, &no_data, NOEXIST);
  state = storage_of(&wait_states, child, 0, STORAGE_CREATE);
  if (!state) lose(LOST_PROCESSES);
  else state->key = key;
  return 0;
}

SEC("tp_btf/sched_process_exec")
int process_execed(u64 *ctx) {
  struct task_struct *task = (void *)ctx[0];
  u32 tgid = task->tgid;
  struct process_value *process = lookup(&processes, &tgid);
  if (!process) return 0;
  process->library = 0;
  __sync_fetch_and_add(&process->execs, 1);
  return 0;
}

SEC("tp_btf/sched_process_exit")
int process_exited(u64 *ctx) {
  struct task_struct *task = (void *)ctx[0];
  u32 tgid = task->tgid;
  struct process_value *process = lookup(&processes, &tgid);
  if (process && task->signal->live.counter == 0) process->ended = monotonic_ns();
  return 0;
}

/* Which of these can be had differs by kernel: see probe_session.cc. */
enum { BY_VARIABLE, BY_OLDER_VARIABLE, BY_REGISTERS };

/* Whether an interrupt has stopped the current thread, which then is no waker. */
inlined bool in_interrupt(u32 how) {
  struct task_struct *task = current_task();
  if (__builtin_preserve_field_info(task->thread_info.preempt_count, 2)) /* arm64 */
    return task->thread_info.preempt_count & INTERRUPTED;
  if (how == BY_VARIABLE) {
    const int *count = this_cpu(&__preempt_count);
    return *count & INTERRUPTED;
  }
  if (how == BY_OLDER_VARIABLE) {
    const struct pcpu_hot *hot = this_cpu(&pcpu_hot);
    return hot->preempt_count & INTERRUPTED;
  }
  struct pt_regs *registers = task_registers(task);
  if (!registers || !__builtin_preserve_field_info(registers->orig_ax, 2)) return 0;
  /* Not in a system call; an interrupt during one is not recognised. */
  return (long)registers->orig_ax < 0;
}

inlined bool is_loader(const u64 comm[2]) {
  u32 zero = 0;
  const struct settings_value *value = lookup(&settings, &zero);
  if (!value) return 0;
  for (u32 i = 0; i < GPULENS_PREFIXES; ++i) {
    const struct prefix *prefix = &value->prefix[i];
    if (i >= value->prefixes) return 0;
    if (!((comm[0] ^ prefix->text[0]) & prefix->mask[0]) && !((comm[1] ^ prefix->text[1]) & prefix->mask[1])) return 1;
  }
  return 0;
}

inlined void close_wait(struct wait_state *state) {
  struct data_value *value = lookup(&data_waits, &state->key);
  u64 ns = state->open_ns;
  u32 bucket;
  state->open = 0;
  if (!value) return;
  if (ns < 1000000) {
    __sync_fetch_and_add(&value->short_count, 1);
    __sync_fetch_and_add(&value->short_ns, ns);
    return;
  }
  bucket = bucket_of(ns);
  if (bucket < GPULENS_BUCKETS) __sync_fetch_and_add(&value->buckets[bucket], 1);
  __sync_fetch_and_add(&value->sum_ns, ns);
  __sync_fetch_and_add(&value->count, 1);
}

#define APART_NS 2000000 /* pieces of one wait are nearer to each other */

inlined void goes_off(struct wait_state *state, u64 now, u32 task_state) {
  if (state->open && state->on_at) {
    state->busy_ns += now - state->on_at;
    state->gap_ns += now - state->on_at;
    if (state->busy_ns >= APART_NS) close_wait(state);
  }
  state->off_at = now;
  state->asleep = task_state != 0;
  state->may_be_data = task_state & 1; /* interruptible: disks are waited for otherwise */
  state->by_loader = 0;
}

inlined void comes_on(struct wait_state *state, u64 now) {
  u64 ns = now - state->off_at;
  if (state->off_at && state->by_loader) {
    state->open_ns = state->open ? state->open_ns + state->gap_ns + ns : ns;
    state->open = 1;
    state->gap_ns = state->busy_ns = state->other_ns = 0;
  } else if (state->off_at && !state->asleep) {
    state->gap_ns += ns;
  } else if (state->off_at) {
    struct data_value *value = lookup(&data_waits, &state->key);
    if (value) __sync_fetch_and_add(&value->other_ns, ns);
    state->other_ns += ns;
    if (state->open && state->other_ns >= APART_NS) close_wait(state);
  }
  state->off_at = 0;
  state->on_at = now;
}

SEC("tp_btf/sched_switch")
int thread_switched(u64 *ctx) {
  struct task_struct *before = (void *)ctx[1], *after = (void *)ctx[2];
  bool preempted = (bool)ctx[0];
  u32 zero = 0, task_state;
  u64 *count = lookup(&switches, &zero);
  struct wait_state *state = storage_of(&wait_states, before, 0, 0);
  if (count) ++*count;
  if (state) {
    if (switch_has_state) task_state = (u32)ctx[3];
    else task_state = before->__state;
    goes_off(state, monotonic_ns(), preempted ? 0 : task_state);
  }
  state = storage_of(&wait_states, after, 0, 0);
  if (state) comes_on(state, monotonic_ns());
  return 0;
}

inlined int woken(u64 *ctx, u32 how) {
  struct task_struct *task = (void *)ctx[0], *waker;
  struct wait_state *state = storage_of(&wait_states, task, 0, 0);
  u64 comm[2] = {};
  if (!state || !state->off_at || !state->may_be_data || state->by_loader || in_interrupt(how)) return 0;
  read_kernel(comm, sizeof comm, &task->comm);
  if (is_loader(comm)) return 0; /* a loader that waits for another one */
  current_comm(comm, sizeof comm);
  state->by_loader = is_loader(comm);
  if (state->by_loader) return 0;
  waker = current_task();
  if (waker->tgid == task->tgid) return 0;
  read_kernel(comm, sizeof comm, &waker->group_leader->comm);
  state->by_loader = is_loader(comm);
  return 0;
}

SEC("tp_btf/sched_waking")
int woken_variable(u64 *ctx) { return woken(ctx, BY_VARIABLE); }

SEC("tp_btf/sched_waking")
int woken_older(u64 *ctx) { return woken(ctx, BY_OLDER_VARIABLE); }

SEC("tp_btf/sched_waking")
int woken_registers(u64 *ctx) { return woken(ctx, BY_REGISTERS); }

char of_license[] SEC("license") = "Dual BSD/GPL";
