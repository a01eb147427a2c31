/* The SDK for C and for languages that call C. It includes no other header of gpulens; its binary interface
 * only grows.
 *
 *   gpulens_series* requests = gpulens_counter("http.server.requests", "{request}", NULL, 0);
 *   gpulens_export_to_agent(NULL);
 *   gpulens_add(requests, 1);
 *
 * All functions are thread-safe. Functions that set something up return an error; functions that record never
 * fail: records that cannot be kept are dropped and counted. Texts are UTF-8 and are copied. Series and
 * exporters live until the process ends, which exports once more, for at most a second. After fork() the
 * child counts from 0. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces. */

/* Results of functions that may fail. More may be added. */
enum {
  GPULENS_OK = 0,
  GPULENS_UNAVAILABLE = 1,       /* this machine lacks the device, file or server */
  GPULENS_PERMISSION_DENIED = 2, /* it exists, but this process may not use it */
  GPULENS_INVALID_ARGUMENT = 3,
  GPULENS_DATA_LOSS = 4, /* the other side sent data that cannot be decoded, or refused some of ours */
  GPULENS_TIMEOUT = 5,
  GPULENS_EXHAUSTED = 6, /* a limit is reached */
  GPULENS_IO = 7         /* any other failed system call */
};

/* One series of an instrument. */
typedef struct gpulens_series gpulens_series;

typedef struct gpulens_attribute {
  const char* key;
  const char* value;
} gpulens_attribute;

/* Returns the series with this name and these attributes, the same one each time. `unit` is UCUM ("s", "By",
 * "{request}") or NULL. Never returns NULL: on failure it returns a series that drops its values, and
 * gpulens_last_error has the reason. Allocates: call it once, not per record. */
gpulens_series* gpulens_counter(const char* name, const char* unit, const gpulens_attribute* attributes,
                                size_t count);
gpulens_series* gpulens_updowncounter(const char* name, const char* unit, const gpulens_attribute* attributes,
                                      size_t count);
gpulens_series* gpulens_gauge(const char* name, const char* unit, const gpulens_attribute* attributes,
                              size_t count);
/* A histogram with exponential buckets, for values of any size from 0 up. */
gpulens_series* gpulens_histogram(const char* name, const char* unit, const gpulens_attribute* attributes,
                                  size_t count);

/* Adds to a counter (0 or more) or an updowncounter. */
void gpulens_add(gpulens_series* series, int64_t n);
/* Sets a gauge. After NAN, an unknown value, it is not exported until the next call. */
void gpulens_set(gpulens_series* series, double value);
/* Records a value in a histogram. */
void gpulens_record(gpulens_series* series, double value);

/* Exports to the agent of this machine from now on, at `socket` or, for NULL, at its usual place. An absent
 * agent is not an error: the exporter retries. A second call with the same socket has no effect. */
int gpulens_export_to_agent(const char* socket);
/* Exports to an OTLP receiver; for NULL to the one that the environment's OTEL_EXPORTER_OTLP_ variables name.
 * Only these variables set the protocol, headers and certificates. Links TLS and gRPC: a program that does
 * not call this function contains neither, also with GPULENS_EXPORT=otlp. */
int gpulens_export_otlp(const char* endpoint);
/* Serves a page to scrape at `listen` (NULL: "127.0.0.1:9464"), to this machine alone. */
int gpulens_expose(const char* listen);
/* Adds up what the worker processes of a server count: pages of each have the counts of all. Call it in each
 * worker, or before they are forked. They share a folder; NULL: $GPULENS_WORKERS_DIR, else one in memory of
 * the processes that were forked from one program. */
int gpulens_share_with_workers(const char* folder);
/* Exports now and waits, at most this long. Returns the error of the last exporter that failed. */
int gpulens_flush(double timeout_seconds);

/* ---- energy: joules of a time window, or of one request's share of it */

typedef struct gpulens_window gpulens_window;

/* What a window measures. */
enum {
  GPULENS_WHOLE_DEVICES = 0,  /* all energy of the devices that this process may use */
  GPULENS_SHARE_BY_TIME = 1,  /* an equal share among the requests that are open at each instant */
  GPULENS_SHARE_BY_TOKENS = 2 /* a share by the tokens that each open request has added */
};
/* gpulens_energy.method and .validity. More may be added. */
enum { GPULENS_METHOD_NONE = 0, GPULENS_METHOD_COUNTER = 1, GPULENS_METHOD_POWER_INTEGRAL = 2 };
enum {
  GPULENS_VALID = 0,
  GPULENS_RUNNING = 1,
  GPULENS_NO_DEVICE = 2,
  GPULENS_NO_PERMISSION = 3,
  GPULENS_SOURCE_FAILED = 4,
  GPULENS_COUNTER_RESET = 5,
  GPULENS_GAP = 6
};

typedef struct gpulens_energy {
  size_t size; /* sizeof(gpulens_energy), set by the caller; members beyond it are not written */
  /* NAN where unknown, never 0. Of a share, energy_joules is its part and device_energy_joules the energy of
   * the devices. */
  double energy_joules, device_energy_joules, uncertainty_joules, duration_seconds;
  int32_t method, validity;
  /* Set by the caller: an array for the energy of each device in joules, which adds up to energy_joules, and
   * its length. NULL: none. */
  double* device_joules;
  size_t device_capacity;
  size_t device_count; /* number of devices; those beyond the capacity are not written */
} gpulens_energy;

/* Begins a window now. Never returns NULL. The first call of the process starts the thread that reads the
 * devices and waits for its first reading, at most 3 s. */
gpulens_window* gpulens_window_begin(int share);
/* Adds tokens to the window. Called by any thread. */
void gpulens_window_tokens(gpulens_window* window, int64_t tokens);
/* Ends the window now, waits at most 20 ms for a closing reading, and frees the window. GPULENS_OK when
 * `energy`, which may be NULL, is valid; otherwise gpulens_last_error has the reason and what to do. */
int gpulens_window_end(gpulens_window* window, gpulens_energy* energy);

/* ---- records of inference calls, in a file or a server: gpulens/inference.h, docs/telemetry.md */

typedef struct gpulens_store gpulens_store;

/* Opens a file, creating it if needed, or postgresql://USER:PASSWORD@HOST/DATABASE. `store` is NULL on
 * failure. */
int gpulens_store_open(const char* path_or_url, gpulens_store** store);

/* What recording does with a full queue. */
enum {
  GPULENS_WHEN_FULL_DROP_NEWEST = 0, /* drops the record and counts it */
  GPULENS_WHEN_FULL_BLOCK = 1        /* waits for room; drops it when nothing could be written for 10 s */
};
typedef struct gpulens_store_options {
  size_t size; /* sizeof(gpulens_store_options), set by the caller; members beyond it have defaults */
  size_t queue_records; /* capacity of the queue; 0: 16,384 */
  int32_t when_full;
} gpulens_store_options;

/* gpulens_store_open with options; NULL: the defaults. */
int gpulens_store_open_with(const char* path_or_url, const gpulens_store_options* options,
                            gpulens_store** store);
/* Records one call, a JSON object of at most 64 KiB, `size` bytes without the NUL. Its members are the
 * columns of the table, in the table's units, as `gpulens telemetry export` writes them:
 *   {"model_id": "llama-3.1-8b", "prompt_tokens": 512, "latency_seconds": 1.25, "mean_itl_ms": 9.8}
 * Members that are absent or null are unknown; the default timestamp is now. GPULENS_INVALID_ARGUMENT: it is
 * not such an object and nothing is stored; gpulens_last_error names the member. GPULENS_EXHAUSTED, or the
 * error of writing: the record was dropped, because the queue is full. Waits only with
 * GPULENS_WHEN_FULL_BLOCK: a thread writes. */
int gpulens_store_record_json(gpulens_store* store, const char* json, size_t size);
/* Waits until all earlier records are stored, at most this long. GPULENS_EXHAUSTED: records were dropped
 * since the last call. */
int gpulens_store_flush(gpulens_store* store, double timeout_seconds);
/* Writes queued records, for at most 5 s, and frees the store, also on failure: GPULENS_EXHAUSTED when
 * records were dropped because the queue was full, GPULENS_DATA_LOSS when the file refused some. */
int gpulens_store_close(gpulens_store* store);

/* ---- what a job reports of itself, in memory that it shares with the agent: gpulens/job.h,
 * docs/training-inside.md. libgpulens-job.so has these functions alone and needs the C library alone. They
 * take some 100 ns; without an agent some ns, and nothing is kept. After fork() the child reports for itself,
 * and what its parent began does not end in it. Not for signal handlers. */

/* Phases of a job. More may be added. */
enum {
  GPULENS_PHASE_UNKNOWN = 0,
  GPULENS_PHASE_DATA_LOADING = 1,
  GPULENS_PHASE_GPU_COMPUTE = 2,
  GPULENS_PHASE_NCCL_COLLECTIVE = 3,
  GPULENS_PHASE_OPTIMIZER_STEP = 4,
  GPULENS_PHASE_CHECKPOINT = 5,
  GPULENS_PHASE_PREFILL = 6,
  GPULENS_PHASE_DECODE = 7,
  GPULENS_PHASE_QUEUED = 8,
  GPULENS_PHASE_IDLE = 9
};
/* Begins a phase, which lasts until it ends or another one begins, and returns what ends it; 0 ends nothing.
 * Phases nest, also those of several threads. */
uint64_t gpulens_phase_begin(int phase);
void gpulens_phase_end(uint64_t token);

/* A wait for the next batch, from begin to end in one thread. A wait inside another one is part of it. */
typedef struct gpulens_data_wait {
  uint64_t state[4];
} gpulens_data_wait;
void gpulens_data_wait_begin(gpulens_data_wait* wait);
/* got_batch 0: there was none left, and the wait is not recorded. */
void gpulens_data_wait_end(gpulens_data_wait* wait, int got_batch);

/* Functions of collectives. More may be added. */
enum {
  GPULENS_OTHER_COLLECTIVE = 0,
  GPULENS_ALL_REDUCE = 1,
  GPULENS_BROADCAST = 2,
  GPULENS_ALL_GATHER = 3,
  GPULENS_REDUCE_SCATTER = 4,
  GPULENS_REDUCE = 5,
  GPULENS_ALL_TO_ALL = 6,
  GPULENS_GATHER = 7,
  GPULENS_SCATTER = 8,
  GPULENS_SEND = 9,
  GPULENS_RECEIVE = 10,
  GPULENS_ALL_GATHER_V = 11,
  GPULENS_BARRIER = 12
};
/* A group of ranks; `hash` identifies it and is equal on all ranks, `name` may be NULL. Returns 0 where 64
 * are open. Calls of one function are joined across ranks by their order: report all of them on all ranks. */
uint64_t gpulens_communicator_open(uint64_t hash, int rank, int ranks, const char* name);
void gpulens_communicator_close(uint64_t communicator);
typedef struct gpulens_collective {
  uint64_t state[8];
} gpulens_collective;
/* `bytes`: the message of this rank. `root`: the root, or the other rank of send and receive; -1: none.
 * `asynchronous`: the call returns at once, and the program waits later. */
void gpulens_collective_begin(gpulens_collective* call, uint64_t communicator, int function, uint64_t bytes,
                              int root, int asynchronous);
/* `measured` 0: it ended at an unknown time or failed; it is counted and its time is not. */
void gpulens_collective_end(gpulens_collective* call, int measured);

/* Names the framework, such as "torch 2.4.0". */
void gpulens_job_library(const char* name);
/* Reports why less is measured than was wanted. */
void gpulens_job_trouble(const char* why);
/* GPULENS_OK: the agent has, or finds, what this process reports. GPULENS_UNAVAILABLE: there is no agent,
 * yet. GPULENS_PERMISSION_DENIED: it is turned off. GPULENS_EXHAUSTED: no memory could be shared. */
int gpulens_job_status(void);

/* Returns why this thread's last call failed, "" when it succeeded. Valid until the thread's next call. */
const char* gpulens_last_error(void);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
