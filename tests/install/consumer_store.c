/* Calls of an engine, kept in a file, in C11. */
#include <gpulens/c.h>
#include <stdio.h>
#include <string.h>

static int record(gpulens_store* store, const char* json) {
  return gpulens_store_record_json(store, json, strlen(json));
}

int main(int count, char** arguments) {
  const char* path = count > 1 ? arguments[1] : "telemetry.db";
  gpulens_store* store = NULL;
  if (gpulens_store_open(path, &store) != GPULENS_OK) return fprintf(stderr, "%s\n", gpulens_last_error()), 1;
  if (record(store, "{\"model_id\": \"llama-3.1-8b\", \"prompt_tokens\": 512, \"completion_tokens\": 128,"
                    " \"latency_seconds\": 1.25}") != GPULENS_OK)
    return fprintf(stderr, "%s\n", gpulens_last_error()), 2;
  /* Wrong values are reported, and not stored. */
  if (record(store, "{\"model\": \"llama-3.1-8b\"}") != GPULENS_INVALID_ARGUMENT) return 3;
  printf("%s\n", gpulens_last_error());
  if (gpulens_store_flush(store, 20) != GPULENS_OK) return 4;
  if (gpulens_store_close(store) != GPULENS_OK) return fprintf(stderr, "%s\n", gpulens_last_error()), 5;
  return 0;
}
