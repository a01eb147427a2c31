// Whatever a client sends: no crash, spans are inside, and an edited body is read as what it was edited to.
// Paths, too.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "wire/llm/llm_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  if (size < 1) return 0;
  static constexpr std::string_view kPaths[] = {"/v1/chat/completions",
                                                "/v1/responses",
                                                "/v1/messages",
                                                "/v1beta/models/g:generateContent",
                                                "/api/chat",
                                                "/generate",
                                                "/v2/chat",
                                                "/v1/embeddings"};
  const LlmRoute& route = *FindLlmRoute("POST", kPaths[data[0] % 8]).route;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);

  if (const auto path = NormalLlmPath(body); path.ok()) {
    const LlmRouteMatch match = FindLlmRoute("POST", path->path);
    CHECK(match.route != nullptr);
    // What is normal stays as it is.
    const auto again = NormalLlmPath(path->path);
    CHECK(again.ok() && again->path == path->path);
  }

  const auto request = ReadLlmRequest(body, route);
  if (!request.ok()) {
    CHECK(!request.error().detail.empty());
    return 0;
  }
  CHECK(body[request->end_brace] == '}');
  CHECK(request->text_bytes >= 0 && request->text_bytes <= static_cast<int64_t>(body.size()));
  CHECK(request->media >= 0 && request->choices >= 1);
  CHECK(request->model_value.end <= body.size() && request->stream_options.end <= body.size());
  std::vector<LlmEdit> edits = InjectUsage(*request, route, data[0] & 8);
  const bool injected = !edits.empty();
  if (!request->model_value.empty()) edits.push_back(ReplaceModel(*request, "other"));
  const std::string edited = Edited(body, edits);
  CHECK(edited.size() == EditedSize(body, edits));
  // One more member may be one too many.
  const auto after = ReadLlmRequest(edited, route);
  if (!after.ok()) {
    CHECK(after.error().code == Code::kExhausted);
    return 0;
  }
  CHECK(after->stream == request->stream && after->max_output == request->max_output &&
        after->choices == request->choices);
  CHECK(after->usage_requested == (request->usage_requested || injected));
  CHECK(after->model == (request->model_value.empty() ? "" : "other"));
  CHECK(InjectUsage(*after, route).empty());
  return 0;
}
