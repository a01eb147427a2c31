/* A libcupti without a GPU, for tests of what injects it: gets launches from the fake libcuda (../fake_cuda) and
   hands out records as CUPTI does. FAKE_CUPTI_API when compiled: 12 (libcupti.so.12: one subscriber), 130 (.13: one
   subscriber, whose name is told), 135 (.13: several subscribers, *_v2 calls).

   Environment, read when the library is loaded:
     FAKE_CUPTI_TAKEN=NAME       another subscriber exists: cuptiSubscribe returns 39, _v2 tells NAME
     FAKE_CUPTI_DROP=N           each Nth kernel record is dropped and counted as such
     FAKE_CUPTI_NO_TIMES=N       each Nth kernel record has the times 0
     FAKE_CUPTI_UNKNOWN=N        a record of a kind that nobody enabled after each Nth kernel record
     FAKE_CUPTI_FAIL=FUNCTION    that function returns 999
     FAKE_CUPTI_LATE=MS          the worker returns full buffers after MS, whatever period was set
     FAKE_CUPTI_OLD_DRIVER=1     no buffers for several subscribers
     FAKE_CUPTI_CLOCK=N          timestamps are CLOCK_REALTIME plus N, as with another tool's timestamp callback
   After the end FAKE_CUPTI_REPORT=FILE gets "calls v1 N v2 N mixed N dropped N buffers N outstanding N enabled N". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../fake_cuda/fake_cuda.h"

#define SHOWN __attribute__((visibility("default")))
typedef int CUptiResult;
enum { kOk = 0, kInvalid = 1, kMaxLimit = 12, kNotCompatible = 14, kInvalidKind = 21, kTaken = 39, kUnknown = 999 };
enum { kDriverDomain = 1, kConcurrentKernel = 10, kGraphTrace = 51, kOverhead = 17, kKinds = 64, kCallbacks = 900 };

/* The fields of CUpti_ActivityKernel9 to 13 that the library fills; sizes differ by version. */
#pragma pack(push, 8)
struct KernelRecord {
  uint32_t kind, a[3];
  uint64_t start, end, completed;
  uint32_t device, context, stream, b[10], correlation;
  int64_t grid;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launch_type, c[7];
  uint64_t graph_node;
  uint32_t d, graph;
#if FAKE_CUPTI_API == 12
  uint8_t rest[208 - 160];
#elif FAKE_CUPTI_API == 130
  uint8_t rest[216 - 160];
#else
  uint8_t rest[248 - 160];
#endif
};
struct GraphRecord {
  uint32_t kind, correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
  void* reserved;
  uint32_t end_device, end_context;
};
struct OtherRecord {
  uint32_t kind, a[3];
};
#pragma pack(pop)
_Static_assert(__builtin_offsetof(struct KernelRecord, correlation) == 92, "");
_Static_assert(__builtin_offsetof(struct KernelRecord, name) == 104, "");
_Static_assert(__builtin_offsetof(struct KernelRecord, graph) == 156, "");
_Static_assert(sizeof(struct GraphRecord) == 56, "");

struct CallbackData {
  int site;
  const char* function;
  const void* parameters;
  void* result;
  const char* symbol;
  CUcontext context;
  uint32_t context_uid;
  uint64_t* correlation_data;
  uint32_t correlation;
};

typedef void (*Callback)(void* user, int domain, uint32_t callback, const void* data);
typedef void (*Requested)(uint8_t** buffer, size_t* size, size_t* records);
typedef void (*Completed)(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
typedef void (*Requested2)(uint8_t** buffer, size_t* size, size_t* records, void* info);
typedef void (*Completed2)(uint8_t* buffer, size_t size, size_t valid, void* info);

static struct Subscriber {
  int used;
} the_subscriber;
static Callback callback;
static void* callback_user;
static Requested requested;
static Completed completed;
static Requested2 requested2;
static Completed2 completed2;
static atomic_uchar enabled[kCallbacks];
static atomic_uchar kinds[kKinds];
static atomic_uint correlations;
static atomic_ulong calls_v1, calls_v2, mixed, dropped, dropped_ever, buffers, outstanding;
static unsigned long drop_every, no_times_every, unknown_every, late_ms, old_driver;
static int64_t clock_offset;
static const char *taken, *fail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static struct Full {
  uint8_t* buffer;
  size_t size, valid;
  uint64_t end; /* when all its kernels have ended */
} current, full[256];
static size_t current_records, current_limit, full_count, kernel_count;
static uint32_t period_ms;

static uint64_t Now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int Fails(const char* function) { return fail && !strcmp(fail, function); }

static void Deliver(struct Full buffer) {
  atomic_fetch_add(&buffers, 1);
  atomic_fetch_sub(&outstanding, 1);
  if (completed2) {
    struct {
      size_t size;
      uint64_t thread;
      void* layouts;
      size_t count;
    } info = {sizeof info, 0, NULL, 0};
    completed2(buffer.buffer, buffer.size, buffer.valid, &info);
  } else {
    completed(NULL, 0, buffer.buffer, buffer.size, buffer.valid);
  }
}

/* Holding the lock. Full buffers whose kernels have ended leave; all of them when forced. */
static void DeliverFull(int forced) {
  const uint64_t now = Now();
  size_t kept = 0;
  struct Full ready[256];
  size_t ready_count = 0;
  for (size_t i = 0; i < full_count; ++i) {
    if (forced || full[i].end <= now)
      ready[ready_count++] = full[i];
    else
      full[kept++] = full[i];
  }
  full_count = kept;
  pthread_mutex_unlock(&lock);
  for (size_t i = 0; i < ready_count; ++i) Deliver(ready[i]);
  pthread_mutex_lock(&lock);
}

static void* Work(void* unused) {
  pthread_mutex_lock(&lock);
  for (;;) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const uint64_t wait = (late_ms ? late_ms : period_ms ? period_ms : 1000) * 1000000ull;
    until.tv_sec += (time_t)(wait / 1000000000u);
    until.tv_nsec += (long)(wait % 1000000000u);
    if (until.tv_nsec >= 1000000000) ++until.tv_sec, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&wake, &lock, &until);
    DeliverFull(0);
  }
  return unused;
}

/* Holding the lock. */
static void CloseCurrent(void) {
  if (!current.buffer || full_count == 256) return;
  full[full_count++] = current;
  current = (struct Full){0};
  if (!period_ms) pthread_cond_signal(&wake); /* a period replaces this */
}

static void* Room(size_t bytes, uint64_t end) {
  if (!current.buffer || current.valid + bytes > current.size || (current_limit && current_records == current_limit)) {
    CloseCurrent();
    if (!current.buffer) {
      uint8_t* buffer = NULL;
      size_t size = 0, records = 0;
      pthread_mutex_unlock(&lock);
      if (requested2) {
        size_t info = sizeof info;
        requested2(&buffer, &size, &records, &info);
      } else if (requested) {
        requested(&buffer, &size, &records);
      }
      pthread_mutex_lock(&lock);
      if (buffer && ((uintptr_t)buffer % 8 || size < bytes)) abort();
      if (!buffer) return atomic_fetch_add(&dropped, 1), atomic_fetch_add(&dropped_ever, 1), NULL;
      if (current.buffer) abort();
      atomic_fetch_add(&outstanding, 1);
      current = (struct Full){buffer, size, 0, 0};
      current_records = 0;
      current_limit = records;
    }
  }
  void* record = current.buffer + current.valid;
  memset(record, 0, bytes);
  current.valid += bytes;
  ++current_records;
  if (end > current.end) current.end = end;
  return record;
}

static pthread_mutex_t producers = PTHREAD_MUTEX_INITIALIZER; /* Room gives up `lock` */

static void OnKernel(uint32_t correlation, const char* name, int device, uint64_t start, uint64_t end, uint32_t graph,
                     uint64_t node) {
  if (!atomic_load_explicit(&kinds[kConcurrentKernel], memory_order_relaxed)) return;
  pthread_mutex_lock(&producers);
  pthread_mutex_lock(&lock);
  ++kernel_count;
  if (drop_every && kernel_count % drop_every == 0) {
    atomic_fetch_add(&dropped, 1);
    atomic_fetch_add(&dropped_ever, 1);
  } else {
    struct KernelRecord* record = Room(sizeof *record, end);
    if (record) {
      const int none = no_times_every && kernel_count % no_times_every == 0;
      record->kind = kConcurrentKernel;
      record->start = none ? 0 : start + (uint64_t)clock_offset;
      record->end = none ? 0 : end + (uint64_t)clock_offset;
      record->device = (uint32_t)device;
      record->correlation = correlation;
      record->name = name;
      record->graph = graph;
      record->graph_node = node;
    }
    if (unknown_every && kernel_count % unknown_every == 0) {
      struct OtherRecord* other = Room(sizeof *other, end);
      if (other) other->kind = kOverhead;
    }
  }
  pthread_mutex_unlock(&lock);
  pthread_mutex_unlock(&producers);
}

static int OnGraph(uint32_t correlation, int device, uint64_t start, uint64_t end, uint32_t graph) {
  if (!atomic_load_explicit(&kinds[kGraphTrace], memory_order_relaxed)) return 0;
  pthread_mutex_lock(&producers);
  pthread_mutex_lock(&lock);
  struct GraphRecord* record = Room(sizeof *record, end);
  if (record) {
    record->kind = kGraphTrace;
    record->correlation = correlation;
    record->start = start + (uint64_t)clock_offset;
    record->end = end + (uint64_t)clock_offset;
    record->device = (uint32_t)device;
    record->graph = graph;
  }
  pthread_mutex_unlock(&lock);
  pthread_mutex_unlock(&producers);
  return 1;
}

static void Call(int site, int id, uint32_t correlation, CUcontext context, uint64_t* scratch, CUresult* result) {
  const struct CallbackData data = {site,    "function", NULL, result, NULL, context, FakeCudaContextUid(context),
                                    scratch, correlation};
  callback(callback_user, kDriverDomain, (uint32_t)id, &data);
}

static uint32_t OnEnter(int id, CUcontext context, uint64_t* scratch) {
  const uint32_t correlation = atomic_fetch_add_explicit(&correlations, 1, memory_order_relaxed) + 1;
  if (callback && atomic_load_explicit(&enabled[id], memory_order_relaxed))
    Call(0, id, correlation, context, scratch, NULL);
  return correlation;
}

static void OnExit(int id, uint32_t correlation, CUcontext context, uint64_t* scratch, CUresult result) {
  if (callback && atomic_load_explicit(&enabled[id], memory_order_relaxed))
    Call(1, id, correlation, context, scratch, &result);
}

static const struct FakeCudaTracer tracer = {OnEnter, OnExit, OnKernel, OnGraph};

static void Report(void) {
  const char* path = getenv("FAKE_CUPTI_REPORT");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  unsigned count = 0;
  for (int i = 0; i < kCallbacks; ++i) count += atomic_load(&enabled[i]);
  fprintf(file, "calls v1 %lu v2 %lu mixed %lu dropped %lu buffers %lu outstanding %lu enabled %u\n",
          atomic_load(&calls_v1), atomic_load(&calls_v2), atomic_load(&mixed), atomic_load(&dropped_ever),
          atomic_load(&buffers), atomic_load(&outstanding), count);
  fclose(file);
}

static unsigned long Number(const char* name, unsigned long otherwise) {
  const char* text = getenv(name);
  return text ? strtoul(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void Start(void) {
  taken = getenv("FAKE_CUPTI_TAKEN");
  fail = getenv("FAKE_CUPTI_FAIL");
  drop_every = Number("FAKE_CUPTI_DROP", 0);
  no_times_every = Number("FAKE_CUPTI_NO_TIMES", 0);
  unknown_every = Number("FAKE_CUPTI_UNKNOWN", 0);
  late_ms = Number("FAKE_CUPTI_LATE", 0);
  old_driver = Number("FAKE_CUPTI_OLD_DRIVER", 0);
  clock_offset = (int64_t)Number("FAKE_CUPTI_CLOCK", 0);
  atexit(Report);
}

static CUptiResult Subscribe(void** subscriber, Callback function, void* user) {
  if (taken || the_subscriber.used) return kTaken;
  the_subscriber.used = 1;
  *subscriber = &the_subscriber;
  callback_user = user;
  callback = function;
  FakeCudaTrace(&tracer);
  pthread_t worker;
  pthread_create(&worker, NULL, Work, NULL);
  pthread_detach(worker);
  return kOk;
}

/* One interface for a process: who mixes them gets "not compatible". */
static int Mixed(int version) {
  atomic_fetch_add(version == 1 ? &calls_v1 : &calls_v2, 1);
  if (!atomic_load(version == 1 ? &calls_v2 : &calls_v1)) return 0;
  atomic_fetch_add(&mixed, 1);
  return 1;
}

SHOWN CUptiResult cuptiGetTimestamp(uint64_t* time) {
  return *time = Now() + (uint64_t)clock_offset, Mixed(1) ? kNotCompatible : kOk;
}
SHOWN CUptiResult cuptiGetVersion(uint32_t* version) {
#if FAKE_CUPTI_API == 12
  return *version = 28, kOk;
#elif FAKE_CUPTI_API == 130
  return *version = 130001, kOk;
#else
  return *version = 130500, kOk;
#endif
}
SHOWN CUptiResult cuptiSubscribe(void** subscriber, Callback function, void* user) {
  if (Fails("cuptiSubscribe")) return kUnknown;
  return Subscribe(subscriber, function, user);
}
SHOWN CUptiResult cuptiUnsubscribe(void* subscriber) {
  if (subscriber != &the_subscriber) return kInvalid;
  FakeCudaTrace(NULL);
  the_subscriber.used = 0;
  return kOk;
}
SHOWN CUptiResult cuptiEnableCallback(uint32_t enable, void* subscriber, int domain, uint32_t id) {
  if (Fails("cuptiEnableCallback")) return kUnknown;
  if (subscriber != &the_subscriber || domain != kDriverDomain || id >= kCallbacks) return kInvalid;
  atomic_store(&enabled[id], enable != 0);
  return kOk;
}
SHOWN CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t* device) {
  if (!context) return kInvalid;
  return *device = (uint32_t)FakeCudaContextDevice(context), kOk;
}
SHOWN CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  return *text = result == kTaken ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN", kOk;
}
SHOWN CUptiResult cuptiActivityFlushPeriod(uint32_t ms) { return period_ms = ms, kOk; }
SHOWN CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  if (!completed && !completed2) return kInvalid;
  pthread_mutex_lock(&producers);
  pthread_mutex_lock(&lock);
  if (flag || (current.buffer && current.end <= Now())) CloseCurrent();
  DeliverFull((int)flag);
  pthread_mutex_unlock(&lock);
  pthread_mutex_unlock(&producers);
  return kOk;
}
SHOWN CUptiResult cuptiActivityEnableHWTrace(uint8_t enable) {
  (void)enable;
  return Fails("cuptiActivityEnableHWTrace") ? 27 : kOk;
}
static CUptiResult Enable(uint32_t kind, int enable) {
  if (kind >= kKinds) return kInvalidKind;
  atomic_store(&kinds[kind], (unsigned char)enable);
  return kOk;
}
static CUptiResult Next(uint8_t* buffer, size_t valid, void** record) {
  uint8_t* at = *record;
  if (!at) {
    at = buffer;
  } else {
    uint32_t kind;
    memcpy(&kind, at, sizeof kind);
    at += kind == kConcurrentKernel ? sizeof(struct KernelRecord)
          : kind == kGraphTrace     ? sizeof(struct GraphRecord)
                                    : sizeof(struct OtherRecord);
  }
  if (at >= buffer + valid) return kMaxLimit;
  return *record = at, kOk;
}
SHOWN CUptiResult cuptiActivityEnable(uint32_t kind) {
  if (Fails("cuptiActivityEnable")) return kUnknown;
  return Mixed(1) ? kNotCompatible : Enable(kind, 1);
}
SHOWN CUptiResult cuptiActivityDisable(uint32_t kind) { return Mixed(1) ? kNotCompatible : Enable(kind, 0); }
SHOWN CUptiResult cuptiActivityRegisterCallbacks(Requested request, Completed complete) {
  if (Mixed(1)) return kNotCompatible;
  return requested = request, completed = complete, kOk;
}
SHOWN CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record) {
  return Mixed(1) ? kNotCompatible : Next(buffer, valid, record);
}
SHOWN CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t* count) {
  (void)context, (void)stream;
  if (Mixed(1)) return kNotCompatible;
  return *count = atomic_exchange(&dropped, 0), kOk;
}

#if FAKE_CUPTI_API >= 130
struct Parameters {
  size_t size;
  const char* name;
  char* old;
  size_t old_size;
#if FAKE_CUPTI_API >= 135
  uint8_t several, padding[7];
#endif
};
SHOWN CUptiResult cuptiSubscribe_v2(void** subscriber, Callback function, void* user, struct Parameters* parameters) {
  if (Fails("cuptiSubscribe_v2")) return kUnknown;
  if (!parameters || parameters->size < sizeof *parameters) return kInvalid;
  if (taken && parameters->old) snprintf(parameters->old, parameters->old_size, "%s", taken);
  int several = 0;
#if FAKE_CUPTI_API >= 135
  several = parameters->several;
#endif
  if (taken && !(several && !strncmp(taken, "CUPTI", 5))) return kTaken; /* a tool that is none of CUPTI's shares nothing */
  taken = NULL;
  return Subscribe(subscriber, function, user);
}
#endif
#if FAKE_CUPTI_API >= 135
SHOWN CUptiResult cuptiActivityEnable_v2(void* subscriber, uint32_t kind, void* config) {
  if (subscriber != &the_subscriber || config) return kInvalid;
  if (kind == kGraphTrace) return kNotCompatible; /* without the attribute of several subscribers */
  return Mixed(2) ? kNotCompatible : Enable(kind, 1);
}
SHOWN CUptiResult cuptiActivityDisable_v2(void* subscriber, uint32_t kind, void* config) {
  (void)subscriber, (void)config;
  return Mixed(2) ? kNotCompatible : Enable(kind, 0);
}
SHOWN CUptiResult cuptiActivityRegisterCallbacks_v2(void* subscriber, Requested2 request, Completed2 complete) {
  (void)subscriber;
  if (old_driver || Mixed(2)) return kNotCompatible;
  return requested2 = request, completed2 = complete, kOk;
}
SHOWN CUptiResult cuptiActivityGetNextRecord_v2(void* subscriber, uint8_t* buffer, size_t valid, void** record) {
  (void)subscriber;
  return Mixed(2) ? kNotCompatible : Next(buffer, valid, record);
}
SHOWN CUptiResult cuptiActivityGetNumDroppedRecords_v2(void* subscriber, CUcontext context, uint32_t stream,
                                                       size_t* count) {
  (void)subscriber, (void)context, (void)stream;
  if (Mixed(2)) return kNotCompatible;
  return *count = atomic_exchange(&dropped, 0), kOk;
}
SHOWN CUptiResult cuptiGetTimestamp_v2(void* subscriber, uint64_t* time) {
  (void)subscriber;
  return *time = Now() + (uint64_t)clock_offset, Mixed(2) ? kNotCompatible : kOk;
}
#endif
