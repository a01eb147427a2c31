/* The SDK for C, and for whatever calls C: it stands alone, and its binary interface only grows.
 *
 *   gpulens_series* requests = gpulens_counter("http.server.requests", "{request}", NULL, 0);
 *   gpulens_export_to_agent(NULL);
 *   gpulens_add(requests, 1);
 *
 * All functions are thread-safe. Setting up may fail and says so; recording never does: what cannot be kept
 * is dropped and counted. Texts are UTF-8 and are copied. What has no end of its own lives to the end of the
 * process, which sends once more, for at most a second. After fork() the child counts from 0. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces. */

/* What functions that may fail return. More may be added. */
enum {
  GPULENS_OK = 0,
  GPULENS_UNAVAILABLE = 1,       /* this machine does not have the thing, or nobody is there */
  GPULENS_PERMISSION_DENIED = 2, /* it is there; we may not */
  GPULENS_INVALID_ARGUMENT = 3,
  GPULENS_DATA_LOSS = 4, /* the other side sent what cannot be understood, or refused a part */
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

/* The series of this name with these attributes; the same one when asked again. `unit` is UCUM ("s", "By",
 * "{request}") or NULL. Never NULL: one that cannot be had drops what it is given, and gpulens_last_error
 * says why. It allocates: ask once, not per record. */
gpulens_series* gpulens_counter(const char* name, const char* unit, const gpulens_attribute* attributes,
                                size_t count);
gpulens_series* gpulens_updowncounter(const char* name, const char* unit, const gpulens_attribute* attributes,
                                      size_t count);
gpulens_series* gpulens_gauge(const char* name, const char* unit, const gpulens_attribute* attributes,
                              size_t count);
/* With exponential buckets, for values of any size from 0 on. */
gpulens_series* gpulens_histogram(const char* name, const char* unit, const gpulens_attribute* attributes,
                                  size_t count);

/* To a counter (not below 0) or an updowncounter. */
void gpulens_add(gpulens_series* series, int64_t n);
/* Of a gauge; NAN: it is not known, and not told, until the next one. */
void gpulens_set(gpulens_series* series, double value);
/* Into a histogram. */
void gpulens_record(gpulens_series* series, double value);

/* From here on: to the agent of this machine, at `socket` or, NULL, where it usually is. An absent agent is
 * no failure: it is tried again. Twice the same is once. */
int gpulens_export_to_agent(const char* socket);
/* To a receiver of OTLP; NULL: as the OTEL_EXPORTER_OTLP_ variables of the environment say. These alone say
 * what C has no words for: protocol, headers, certificates. It links TLS and gRPC: a program that does not
 * name it has neither, by GPULENS_EXPORT=otlp either. */
int gpulens_export_otlp(const char* endpoint);
/* As a page to scrape at `listen` ("127.0.0.1:9464"; NULL is that), of this machine alone. */
int gpulens_expose(const char* listen);
/* Sends now, and waits for at most so many seconds. What the last exporter that failed has to say. */
int gpulens_flush(double timeout_seconds);

/* ---- energy: joules of a stretch of time, or of one request's share of it */

typedef struct gpulens_window gpulens_window;

/* What a window tells. */
enum {
  GPULENS_WHOLE_DEVICES = 0,  /* all that the devices of this process draw */
  GPULENS_SHARE_BY_TIME = 1,  /* its part among the requests that are open at each instant, in equal parts */
  GPULENS_SHARE_BY_TOKENS = 2 /* by the tokens that each has added */
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
  /* NAN: not known, never 0. Of a share energy_joules is its part, device_energy_joules what the devices
   * drew. */
  double energy_joules, device_energy_joules, uncertainty_joules, duration_seconds;
  int32_t method, validity;
} gpulens_energy;

/* From now on. Never NULL. The first one of the process starts the thread that reads the devices, and waits
 * for its first reading, at most 3 s. */
gpulens_window* gpulens_window_begin(int share);
/* By any thread. */
void gpulens_window_tokens(gpulens_window* window, int64_t tokens);
/* Up to now; waits at most 20 ms for a closing reading, and frees the window. GPULENS_OK when `energy`, which
 * may be NULL, is valid; else gpulens_last_error says why it is not, and what to do. */
int gpulens_window_end(gpulens_window* window, gpulens_energy* energy);

/* ---- records of inference calls, in a file or a server: gpulens/inference.h, docs/telemetry.md */

typedef struct gpulens_store gpulens_store;

/* A file, which is made where it is missing, or postgresql://USER:PASSWORD@HOST/DATABASE. `store` is NULL
 * when it fails. */
int gpulens_store_open(const char* path_or_url, gpulens_store** store);
/* One call as a JSON object of at most 64 KiB, `size` bytes without the NUL. Its members are the columns of
 * the table, in the table's units, as `gpulens telemetry export` writes them:
 *   {"model_id": "llama-3.1-8b", "prompt_tokens": 512, "latency_seconds": 1.25, "mean_itl_ms": 9.8}
 * What is left out or null is not known; without a timestamp it is now. GPULENS_INVALID_ARGUMENT: no such
 * object, and nothing is stored; gpulens_last_error names the member. Does not wait: a thread writes. */
int gpulens_store_record_json(gpulens_store* store, const char* json, size_t size);
/* Waits until what was recorded is stored, for at most so many seconds. */
int gpulens_store_flush(gpulens_store* store, double timeout_seconds);
/* Writes what waits, for at most 5 s, and frees the store, also when it fails: GPULENS_EXHAUSTED when records
 * were dropped since the queue was full, GPULENS_DATA_LOSS when the file refused some. */
int gpulens_store_close(gpulens_store* store);

/* Why the last function of this thread failed; "" when it did not. Valid until the thread's next call. */
const char* gpulens_last_error(void);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
