// Stores calls of an engine in a file and queries them.
#include <gpulens/gpulens.h>

#include <cstdio>
#include <string>

int main(int count, char** arguments) {
  const std::string path = count > 1 ? arguments[1] : "telemetry.db";
  auto store = gpulens::InferenceStore::Open(path);
  if (!store) return std::fprintf(stderr, "%s\n", store.error().detail.c_str()), 1;
  auto call = store->Begin({.model = "llama-3.1-8b", .engine = "mine"});
  for (int i = 0; i < 128; ++i) {
    call.Wait([] { /* the engine's next token */ });
    call.AddTokens(1);
  }
  call.Finish({.prompt_tokens = 512});
  auto rows = store->Summarize({.by = gpulens::GroupBy::kModel});
  if (!rows) return std::fprintf(stderr, "%s\n", rows.error().detail.c_str()), 2;
  for (const auto& row : *rows) {
    std::printf("%s: %llu calls, %llu completion tokens\n", row.key.c_str(),
                static_cast<unsigned long long>(row.calls),
                static_cast<unsigned long long>(row.completion_tokens));
  }
  return store->Close().ok() && store->health().dropped == 0 ? 0 : 3;
}
