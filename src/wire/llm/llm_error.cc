#include "wire/llm/llm_error.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/text.h"

namespace gpulens {
namespace {

struct ErrorRow {
  LlmError error;
  int status;
  std::string_view openai_type, openai_code, anthropic_type, gemini_status, tgi_type;
};

constexpr ErrorRow kErrorRows[] = {
#define LLM_ERROR(error, status, openai_type, openai_code, anthropic_type, gemini_status, tgi_type) \
  ErrorRow{LlmError::error, status, openai_type, openai_code, anthropic_type, gemini_status, tgi_type},
#include "wire/llm/llm_apis.def"
};
static_assert(std::size(kErrorRows) == kLlmErrors);

const ErrorRow& RowOf(LlmError of) noexcept { return *std::ranges::find(kErrorRows, of, &ErrorRow::error); }

// Appends {"a":"x","b":"y"}.
void AppendTexts(std::string& out,
                 std::initializer_list<std::pair<std::string_view, std::string_view>> members) {
  out += '{';
  for (const auto& [key, value] : members) {
    if (out.back() != '{') out += ',';
    AppendJsonString(out, key);
    out += ':';
    AppendJsonString(out, value);
  }
  out += '}';
}

int StatusOf(const ErrorRow& row, LlmApi api) noexcept {
  // Anthropic's own number for an API that has too much to do.
  if (row.error == LlmError::kOverloaded && api == LlmApi::kAnthropic) return 529;
  if (row.error == LlmError::kUpstreamAway && api == LlmApi::kGemini) return 503;
  return row.status;
}

std::string BodyOf(const ErrorRow& row, LlmApi api, std::string_view message, std::string_view request_id) {
  std::string out;
  switch (api) {
    case LlmApi::kOpenAi:
      out = R"({"error":{"message":)";
      AppendJsonString(out, message);
      out += R"(,"type":)";
      AppendJsonString(out, row.openai_type);
      out += R"(,"param":null,"code":)";
      AppendJsonString(out, row.openai_code);
      out += "}}";
      break;
    case LlmApi::kAnthropic:
      out = R"({"type":"error","error":)";
      AppendTexts(out, {{"type", row.anthropic_type}, {"message", message}});
      if (!request_id.empty()) {
        out += R"(,"request_id":)";
        AppendJsonString(out, request_id);
      }
      out += '}';
      break;
    case LlmApi::kGemini:
      out = R"({"error":{"code":)" + std::to_string(StatusOf(row, api)) + R"(,"message":)";
      AppendJsonString(out, message);
      out += R"(,"status":)";
      AppendJsonString(out, row.gemini_status);
      out += R"(,"details":[]}})";
      break;
    case LlmApi::kOllama: AppendTexts(out, {{"error", message}}); break;
    case LlmApi::kTgi: AppendTexts(out, {{"error", message}, {"error_type", row.tgi_type}}); break;
    case LlmApi::kCohere:
    case LlmApi::kBedrock: AppendTexts(out, {{"message", message}}); break;
  }
  return out;
}

}  // namespace

std::string_view LlmErrorName(LlmError of) noexcept {
  static constexpr std::array<std::string_view, kLlmErrors> kNames = {
      "bad_request",    "bad_key",       "model_not_allowed", "unknown_route",
      "unknown_model",  "conflict",      "too_large",         "limit_reached",
      "budget_used_up", "upstream_away", "overloaded",        "upstream_timeout"};
  return kNames[static_cast<size_t>(of)];
}

int LlmErrorStatus(LlmError of) noexcept { return RowOf(of).status; }

LlmErrorAnswer MakeLlmError(LlmApi api, LlmError error, std::string_view message, std::string_view request_id,
                            int64_t retry_after_s) {
  const ErrorRow& row = RowOf(error);
  LlmErrorAnswer answer;
  answer.status = StatusOf(row, api);
  answer.headers.emplace_back("Content-Type", "application/json");
  if (!request_id.empty()) answer.headers.emplace_back("x-gpulens-request-id", request_id);
  // Clients repeat 409, 429 and all above 499 by themselves.
  const bool hopeless = error == LlmError::kBudgetUsedUp || error == LlmError::kConflict;
  if (hopeless) answer.headers.emplace_back("x-should-retry", "false");
  if (retry_after_s > 0) answer.headers.emplace_back("Retry-After", std::to_string(retry_after_s));
  if (api == LlmApi::kBedrock)
    answer.headers.emplace_back("x-amzn-ErrorType", answer.status == 429  ? "ThrottlingException"
                                                    : answer.status < 500 ? "ValidationException"
                                                                          : "ServiceUnavailableException");
  answer.body = BodyOf(row, api, message, request_id);
  return answer;
}

std::string LlmStreamError(const LlmRoute& route, LlmFraming framing, LlmError error,
                           std::string_view message, std::string_view request_id, int64_t events) {
  const ErrorRow& row = RowOf(error);
  std::string body;
  if (route.shape == LlmShape::kResponses) {
    body = R"({"type":"error","code":)";
    AppendJsonString(body, row.openai_code);
    body += R"(,"message":)";
    AppendJsonString(body, message);
    body += R"(,"param":null,"sequence_number":)" + std::to_string(events) + "}";
  } else {
    body = BodyOf(row, route.api, message, request_id);
  }
  switch (framing) {
    case LlmFraming::kWhole: return {};
    case LlmFraming::kLines: return body + "\n";
    case LlmFraming::kArray: return (events > 0 ? ",\n" : "[") + body + "]";
    case LlmFraming::kSse: break;
  }
  const bool named = route.shape == LlmShape::kResponses || route.shape == LlmShape::kMessages;
  return (named ? "event: error\ndata: " : "data: ") + body + "\n\n";
}

}  // namespace gpulens
