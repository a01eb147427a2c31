/* The same in C11. */
#include <gpulens/c.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  const gpulens_attribute route = {"route", "/chat"};
  gpulens_series* requests = gpulens_counter("http.server.requests", "{request}", &route, 1);
  gpulens_series* open = gpulens_updowncounter("http.server.active_requests", "{request}", NULL, 0);
  gpulens_series* depth = gpulens_gauge("queue.depth", NULL, NULL, 0);
  gpulens_series* latency = gpulens_histogram("latency", "s", NULL, 0);
  if (strcmp(gpulens_last_error(), "") != 0) return 1;
  if (gpulens_counter("http.server.requests", "{request}", &route, 1) != requests) return 2;
  gpulens_add(requests, 2);
  gpulens_add(open, -1);
  gpulens_set(depth, 1.5);
  gpulens_set(depth, NAN);
  gpulens_record(latency, 0.25);

  /* Wrong calls are reported, and harmless. */
  gpulens_series* refused = gpulens_gauge("http.server.requests", "{request}", NULL, 0);
  if (refused == NULL || strstr(gpulens_last_error(), "is taken") == NULL) return 3;
  gpulens_set(refused, 1);
  gpulens_record(requests, 1);
  gpulens_add(NULL, 1);
  if (gpulens_expose("192.0.2.1:1") != GPULENS_INVALID_ARGUMENT) return 4;

  /* Valid, or with a reason: not every machine lets its joules be read. */
  gpulens_energy energy = {.size = sizeof energy};
  gpulens_window* window = gpulens_window_begin(GPULENS_SHARE_BY_TOKENS);
  gpulens_window_tokens(window, 128);
  const int measured = gpulens_window_end(window, &energy) == GPULENS_OK;
  if (measured && isnan(energy.energy_joules)) return 8;

  if (gpulens_expose("127.0.0.1:0") != GPULENS_OK || gpulens_expose("127.0.0.1:0") != GPULENS_OK) return 5;
  if (gpulens_export_to_agent("/nonexistent/otlp.sock") != GPULENS_OK) return 6;
  if (gpulens_flush(20) != GPULENS_UNAVAILABLE) return 7;
  printf("%s\n", gpulens_last_error());
  return 0;
}
