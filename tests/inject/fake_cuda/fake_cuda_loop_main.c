/* fake_cuda_loop [--launches N] [--rate PER_SECOND] [--threads N] [--kind kernel|ex|cooperative|graph|kernel_ptsz|…]
     [--sync-every N] [--names N] [--device N] [--fork] [--exec] [--seconds S] [--dlopen PATH] [--at-exit] [--wait-ms N]
     [--kernel-us N] [--json]
   Calls the fake libcuda at a known rate and prints "launches N ns_per_launch X". Threads share the launches.
   --json: prints what tests/gpu/session/launch_loop.cu prints, after 100 launches before the loop as there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_cuda.h"

static unsigned long launches = 1000, rate, threads = 1, sync_every, names = 1, device;
static double seconds;
static const char* kind = "kernel";
static double kernel_us;
static int json;
static void* library;
static char name_texts[64][64];

static void* Function(const char* name) {
  void* function = library ? dlsym(library, name) : dlsym(RTLD_DEFAULT, name);
  if (!function) {
    fprintf(stderr, "no %s\n", name);
    exit(2);
  }
  return function;
}

static unsigned long long Now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (unsigned long long)time.tv_sec * 1000000000u + (unsigned long long)time.tv_nsec;
}

struct Share {
  unsigned long launches, done;
  unsigned long long ns;
};

static void* Run(void* argument) {
  struct Share* share = argument;
  __typeof__(&cuLaunchKernel) kernel = NULL;
  __typeof__(&cuLaunchKernelEx) ex = NULL;
  __typeof__(&cuLaunchCooperativeKernel) cooperative = NULL;
  __typeof__(&cuGraphLaunch) graph = NULL;
  char symbol[64];
  const char* suffix = strstr(kind, "_ptsz") ? "_ptsz" : "";
  if (!strncmp(kind, "kernel", 6)) {
    snprintf(symbol, sizeof symbol, "cuLaunchKernel%s", suffix);
    kernel = (__typeof__(kernel))Function(symbol);
  } else if (!strncmp(kind, "ex", 2)) {
    snprintf(symbol, sizeof symbol, "cuLaunchKernelEx%s", suffix);
    ex = (__typeof__(ex))Function(symbol);
  } else if (!strncmp(kind, "cooperative", 11)) {
    snprintf(symbol, sizeof symbol, "cuLaunchCooperativeKernel%s", suffix);
    cooperative = (__typeof__(cooperative))Function(symbol);
  } else if (!strncmp(kind, "graph", 5)) {
    snprintf(symbol, sizeof symbol, "cuGraphLaunch%s", suffix);
    graph = (__typeof__(graph))Function(symbol);
  } else {
    fprintf(stderr, "no kind %s\n", kind);
    exit(2);
  }
  __typeof__(&cuStreamSynchronize) synchronize = (__typeof__(synchronize))Function("cuStreamSynchronize");
  ((__typeof__(&FakeCudaSetDevice))Function("FakeCudaSetDevice"))((int)device);
  const FakeCudaLaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
  const unsigned long long begin = Now();
  const unsigned long long step = rate ? 1000000000ull * threads / rate : 0;
  unsigned long long turn = begin;
  unsigned long i = 0;
  for (; seconds > 0 ? (double)(Now() - begin) < seconds * 1e9 : i < share->launches; ++i) {
    const char* name = name_texts[i % names];
    int result = 0;
    if (kernel) result = kernel((CUfunction)name, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    if (ex) result = ex(&config, (CUfunction)name, NULL, NULL);
    if (cooperative) result = cooperative((CUfunction)name, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
    if (graph) result = graph((CUgraphExec)name, NULL);
    if (result) {
      fprintf(stderr, "launch: %d\n", result);
      exit(1);
    }
    if (sync_every && (i + 1) % sync_every == 0) synchronize(NULL);
    if (step) {
      turn += step;
      const unsigned long long now = Now();
      if (turn > now + 200000) {
        const struct timespec rest = {(time_t)((turn - now) / 1000000000u), (long)((turn - now) % 1000000000u)};
        nanosleep(&rest, NULL);
      } else {
        while (Now() < turn) {
        }
      }
    }
  }
  share->done = i;
  share->ns = Now() - begin;
  return NULL;
}

static int Loop(void) {
  struct Share shares[64];
  pthread_t ids[64];
  if (threads > 64) return 2;
  for (unsigned long i = 0; i < threads; ++i)
    shares[i] = (struct Share){launches / threads + (i < launches % threads), 0, 0};
  for (unsigned long i = 1; i < threads; ++i) pthread_create(&ids[i], NULL, Run, &shares[i]);
  Run(&shares[0]);
  unsigned long done = shares[0].done;
  unsigned long long ns = shares[0].ns;
  for (unsigned long i = 1; i < threads; ++i) {
    pthread_join(ids[i], NULL);
    done += shares[i].done;
    ns += shares[i].ns;
  }
  const double each = done ? (double)ns / (double)done : 0.0;
  if (json)
    printf("{\"launches\":%lu,\"ns_per_launch\":%.1f,\"ns_in_call\":%.1f,\"seconds\":%.6f,\"events_ms\":%.4f,"
           "\"kernel_ms_by_events\":0.0}\n",
           done, each, each, (double)ns * 1e-9, (double)done * kernel_us * 1e-3);
  else
    printf("launches %lu ns_per_launch %.1f\n", done, each);
  fflush(stdout);
  return 0;
}

static void AtExit(void) { Loop(); }

int main(int count, char** arguments) {
  int forks = 0, execs = 0, at_exit = 0;
  unsigned long wait_ms = 0;
  const char* path = NULL;
  for (int i = 1; i < count; ++i) {
    const char* option = arguments[i];
    if (!strcmp(option, "--fork") || !strcmp(option, "--exec") || !strcmp(option, "--at-exit") || !strcmp(option, "--json")) {
      json |= !strcmp(option, "--json");
      forks |= !strcmp(option, "--fork");
      execs |= !strcmp(option, "--exec");
      at_exit |= !strcmp(option, "--at-exit");
      continue;
    }
    if (++i == count) return fprintf(stderr, "%s needs a value\n", option), 2;
    const char* value = arguments[i];
    if (!strcmp(option, "--kind")) kind = value;
    else if (!strcmp(option, "--dlopen")) path = value;
    else if (!strcmp(option, "--seconds")) seconds = strtod(value, NULL);
    else if (!strcmp(option, "--launches")) launches = strtoul(value, NULL, 10);
    else if (!strcmp(option, "--rate")) rate = strtoul(value, NULL, 10);
    else if (!strcmp(option, "--threads")) threads = strtoul(value, NULL, 10);
    else if (!strcmp(option, "--sync-every")) sync_every = strtoul(value, NULL, 10);
    else if (!strcmp(option, "--names")) names = strtoul(value, NULL, 10);
    else if (!strcmp(option, "--device")) device = strtoul(value, NULL, 10);
    else if (!strcmp(option, "--kernel-us")) kernel_us = strtod(value, NULL);
    else if (!strcmp(option, "--wait-ms")) wait_ms = strtoul(value, NULL, 10);
    else return fprintf(stderr, "no option %s\n", option), 2;
  }
  if (!names || names > 64) names = 1;
  for (unsigned long i = 0; i < names; ++i) snprintf(name_texts[i], sizeof name_texts[i], "_Z9kernel_%02luPfi", i);
  library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
  if (((__typeof__(&cuInit))Function("cuInit"))(0)) return 1;
  if (kernel_us > 0)
    ((__typeof__(&FakeCudaSet))Function("FakeCudaSet"))(0, 5000, (uint64_t)(kernel_us * 1000));
  if (json) {
    struct Share warm = {100, 0, 0};
    Run(&warm);
  }
  if (Loop()) return 2;
  if (forks) {
    const pid_t child = fork();
    if (child == 0) { /* a driver does not work in a forked child; what measures must not count it for the parent */
      Loop();
      exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status) return fprintf(stderr, "child: %d\n", status), 3;
  }
  if (at_exit) atexit(AtExit);
  if (wait_ms) usleep((useconds_t)wait_ms * 1000);
  if (execs) {
    char text[32];
    snprintf(text, sizeof text, "%lu", launches);
    execl(arguments[0], arguments[0], "--launches", text, (char*)NULL);
    return 4;
  }
  return 0;
}
