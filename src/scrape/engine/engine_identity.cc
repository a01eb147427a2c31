#include "scrape/engine/engine_identity.h"

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"

namespace gpulens::engine_page {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(2);
constexpr Duration kEvery = std::chrono::minutes(10);
constexpr size_t kLargestAnswer = 1u << 20;
constexpr size_t kLongestText = 256;
constexpr uint16_t kTritonPort = 8000;

// A request to an engine's API, and JSON pointers to version and model in its answer.
struct ApiQuery {
  std::string_view engine;  // empty: any of layer "engine" or "gateway"
  std::string_view path, version = {}, model = {};
};
constexpr ApiQuery kQueries[] = {
    {"vllm", "/version", "/version"},
    {"trtllm-serve", "/version", "/version"},
    {"nim", "/v1/version", "/release"},
    {"sglang", "/get_server_info", "/version"},
    {"sglang", "/get_model_info", {}, "/model_path"},
    {"tgi", "/info", "/version", "/model_id"},
    {"triton", "/v2", "/version"},
    {"llama.cpp", "/props", "/build_info"},
    {{}, "/v1/models"},
};

std::string Clean(const std::string& text) {
  std::string out;
  AppendPrintable(out, std::string_view(text).substr(0, kLongestText));
  return out;
}

bool AppliesTo(const ApiQuery& query, const Engine& engine) noexcept {
  if (!query.engine.empty()) return query.engine == engine.name;
  return engine.layer == "engine" && !engine.name.starts_with("triton");
}

}  // namespace

void ReadFacts(std::string_view path, std::string_view body, EngineFacts& facts) {
  auto document = JsonDocument::Parse(body);
  if (!document.ok()) return;
  if (path == "/v1/models") {
    // With several models it is unknown which one a series without a model is about.
    if (document->Size("/data") != 1) return;
    if (auto id = document->Text("/data/0/id")) facts.model = Clean(*id);
    return;
  }
  for (const ApiQuery& query : kQueries) {
    if (query.path != path) continue;
    auto version = query.version.empty() ? std::nullopt : document->Text(query.version);
    auto model = query.model.empty() ? std::nullopt : document->Text(query.model);
    if (version) facts.version = Clean(*version);
    if (model && facts.model.empty()) facts.model = Clean(*model);
    return;
  }
}

// One round of requests, one after the other. Used on the loop, except what the mutex guards; lives as long
// as EngineIdentity or the pending answer needs it.
struct EngineIdentity::Round : std::enable_shared_from_this<EngineIdentity::Round> {
  HttpClient* client = nullptr;
  HttpUrl api;
  std::string headers;
  std::shared_ptr<const TlsContext> tls;
  std::vector<std::string_view> paths;
  size_t at = 0;
  EngineFacts found;
  std::unique_ptr<HttpChannel> channel;
  std::mutex mutex;  // guards what follows
  bool querying = false;
  EngineFacts facts;

  void Next() {
    if (at == paths.size()) {
      channel.reset();
      std::lock_guard lock(mutex);
      querying = false;
      // An engine that is loading does not answer; its former facts may still hold.
      if (!found.model.empty()) facts.model = found.model;
      if (!found.version.empty()) facts.version = found.version;
      return;
    }
    HttpTarget target{api, {}, {}};
    target.url.target = paths[at];
    target.limits.body_bytes = kLargestAnswer;
    channel = client->Open(std::move(target));
    channel->Get({headers, tls, kTimeout, {}}, [self = weak_from_this()](HttpReply& reply) {
      auto round = self.lock();
      if (!round) return;
      if (reply.failure == HttpFailure::kNone && !reply.gzip)
        ReadFacts(round->paths[round->at], reply.body, round->found);
      ++round->at;
      round->Next();
    });
  }
};

EngineIdentity::EngineIdentity(const HttpUrl& page, const Result<HttpUrl>& api, HttpClient& client)
    : page_(page), api_(api), client_(client), round_(std::make_shared<Round>()) {}

EngineIdentity::~EngineIdentity() = default;

EngineFacts EngineIdentity::facts() const {
  std::lock_guard lock(round_->mutex);
  return round_->facts;
}

void EngineIdentity::Query(const Engine* engine, const RemoteAccess& access, int64_t now_ns) {
  if (!engine || now_ns < next_ns_) return;
  {
    std::lock_guard lock(round_->mutex);
    if (round_->querying) return;
    round_->querying = true;
  }
  next_ns_ = now_ns + kEvery.count();
  Round& round = *round_;
  round.client = &client_;
  round.api = api_.ok() ? *api_ : page_;
  if (!api_.ok() && engine->name.starts_with("triton")) round.api.port = kTritonPort;
  round.headers = access.headers() + "Accept: application/json\r\n";
  round.tls = access.tls();
  round.paths.clear();
  for (const ApiQuery& query : kQueries) {
    if (AppliesTo(query, *engine)) round.paths.push_back(query.path);
  }
  round.at = 0;
  round.found = {};
  round.Next();
}

}  // namespace gpulens::engine_page
