/* Calls functions of a library when it is told to: a line of stdin is a command, its answer a line of stdout.
 *   open LIBRARY            → opened
 *   call FUNCTION CALLS NS THREADS → called PID
 *   fork FUNCTION CALLS NS CHILDREN → forked, after the children ended
 *   exec FUNCTION CALLS LIBRARY → a child starts this program again, which opens the library, writes "executed PID",
 *                             calls after a line on its stdin, writes "called PID" and ends after one more line
 *   become FUNCTION CALLS LIBRARY → the same without a child
 *   mix FUNCTION CALLS      → mixed P50_NS P99_NS SUM_NS: 97 of 100 calls spin for 100 us, the others for 1 ms
 *   storm FUNCTION MS WORK  → stormed CALLS BEST_PER_SECOND, with WORK turns of a loop after each call
 *   end */
#define _GNU_SOURCE  // NOLINT(bugprone-reserved-identifier,readability-identifier-naming)
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long (*function)(unsigned long);
static void *library;

struct work {
  function call;
  unsigned long calls, ns;
};
static void *run(void *argument) {
  const struct work *work = argument;
  for (unsigned long i = 0; i < work->calls; ++i) work->call(work->ns);
  return 0;
}
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
static double own_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
static function find(const char *name) {
  const function found = (function)dlsym(library, name);
  if (!found) exit(3);
  return found;
}
static void call(const char *name, unsigned long calls, unsigned long ns, int threads) {
  struct work work = {find(name), calls, ns};
  pthread_t thread[64];
  for (int i = 1; i < threads && i < 64; ++i) pthread_create(&thread[i], 0, run, &work);
  run(&work);
  for (int i = 1; i < threads && i < 64; ++i) pthread_join(thread[i], 0);
}
/* The rate is of the best 50 ms of the thread's own time: other work of the machine does not count. */
static void storm(const char *name, unsigned long ms, unsigned long work) {
  const function each = find(name);
  const double begin = now();
  unsigned long calls = 0, marked = 0;
  double mark = own_time(), best = 0;
  while (now() - begin < (double)ms * 1e-3) {
    for (int i = 0; i < 256; ++i) {
      each(0);
      for (volatile unsigned long turn = 0; turn < work; ++turn) {
      }
    }
    calls += 256;
    const double own = own_time();
    if (own - mark < 0.05) continue;
    const double rate = (double)(calls - marked) / (own - mark);
    if (rate > best) best = rate;
    mark = own, marked = calls;
  }
  printf("stormed %lu %.0f\n", calls, best);
}
static int by_size(const void *a, const void *b) {
  const double one = *(const double *)a, other = *(const double *)b;
  return (one > other) - (one < other);
}
static void mix(const char *name, unsigned long calls) {
  static double took[65536];
  const function each = find(name);
  double sum = 0;
  if (calls > 65536) calls = 65536;
  for (unsigned long i = 0; i < calls; ++i) {
    const double begin = now();
    each(i % 100 < 97 ? 100000 : 1000000);
    took[i] = (now() - begin) * 1e9;
    sum += took[i];
  }
  qsort(took, calls, sizeof took[0], by_size);
  printf("mixed %.0f %.0f %.0f\n", took[calls / 2], took[calls * 99 / 100], sum);
}

int main(int count, char **arguments) {
  char line[4096], name[256], path[2048];
  unsigned long calls, ns;
  int number;
  setvbuf(stdout, 0, _IOLBF, 0);
  if (count == 4) { /* after exec: FUNCTION CALLS LIBRARY */
    library = dlopen(arguments[3], RTLD_NOW);
    printf("executed %d\n", getpid());
    if (!fgets(line, sizeof line, stdin)) return 1;
    call(arguments[1], strtoul(arguments[2], 0, 10), 0, 1);
    printf("called %d\n", getpid());
    return !fgets(line, sizeof line, stdin);
  }
  printf("ready %d\n", getpid());
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "open %2047s", path) == 1) {
      library = dlopen(path, RTLD_NOW);
      if (!library) return 2;
      printf("opened\n");
    } else if (sscanf(line, "call %255s %lu %lu %d", name, &calls, &ns, &number) == 4) {
      call(name, calls, ns, number);
      printf("called %d\n", getpid());
    } else if (sscanf(line, "fork %255s %lu %lu %d", name, &calls, &ns, &number) == 4) {
      for (int i = 0; i < number; ++i) {
        if (fork() == 0) {
          call(name, calls, ns, 1);
          _exit(0);
        }
      }
      while (wait(0) > 0) {
      }
      printf("forked\n");
    } else if (sscanf(line, "exec %255s %lu %2047s", name, &calls, path) == 3 ||
               sscanf(line, "become %255s %lu %2047s", name, &calls, path) == 3) {
      char text[32];
      snprintf(text, sizeof text, "%lu", calls);
      if (line[0] == 'b' || fork() == 0) {
        execl("/proc/self/exe", "caller", name, text, path, (char *)0);
        _exit(1);
      }
      wait(0);
      printf("forked\n");
    } else if (sscanf(line, "mix %255s %lu", name, &calls) == 2) {
      mix(name, calls);
    } else if (sscanf(line, "storm %255s %lu %lu", name, &calls, &ns) == 3) {
      storm(name, calls, ns);
    } else {
      return 0;
    }
  }
  return 0;
}
