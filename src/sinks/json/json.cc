// /json: the latest snapshot as one JSON object, with the keys of the zernel API's page of that name
// beside the families.
//
// The page is made at most once per tick and coding, on a worker; requests in between share its bytes.

#include <mutex>

#include "base/parse.h"
#include "base/workers.h"
#include "catalog/gpu/health.h"
#include "dialects/dialect.h"
#include "net/http/http_server.h"
#include "pipeline/page_board.h"
#include "pipeline/plugin.h"
#include "pipeline/snapshot_hub.h"
#include "wire/gzip.h"
#include "wire/json/json_snapshot.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

constexpr std::string_view kPath = "/json";

std::vector<std::string> AllDialects() {
  std::vector<std::string> names;
  for (std::string_view name : DialectNames()) names.emplace_back(name);
  return names;
}

// The page of the latest tick, plain and packed.
class PageMaker {
 public:
  PageMaker() : page_(MakeSpeller(AllDialects())) { page_.AlwaysShow(AlwaysShown(AllDialects())); }

  // The bytes for this snapshot if they are made already; no body otherwise.
  SharedBytes Ready(const Snapshot& snapshot, bool gzip) {
    std::lock_guard lock(mutex_);
    return made_for_ == snapshot.tick ? (gzip ? packed_ : plain_) : SharedBytes();
  }

  SharedBytes Make(const Snapshot& snapshot, bool gzip) {
    std::lock_guard making(making_);
    SharedBytes ready = Ready(snapshot, gzip);
    if (ready.owner) return ready;
    SharedBytes plain = Ready(snapshot, false), packed;
    if (!plain.owner) {
      auto text = std::make_shared<std::string>();
      text->reserve(last_size_ + last_size_ / 16);
      page_.Render(snapshot, ZernelMembers(snapshot), *text);
      last_size_ = text->size();
      plain = SharedBytes(std::shared_ptr<const std::string>(text));
    }
    if (gzip) {
      auto text = std::make_shared<std::string>();
      gzip_.Compress(plain.bytes, *text);
      packed = SharedBytes(std::shared_ptr<const std::string>(text));
    }
    std::lock_guard lock(mutex_);
    made_for_ = snapshot.tick;
    plain_ = plain;
    packed_ = packed;
    return gzip ? packed : plain;
  }

 private:
  // The maps that no collector feeds yet are empty: that is what is known of them.
  std::string ZernelMembers(const Snapshot& snapshot) {
    std::string out = "\"gpu_memory\":{";
    const char* before = "";
    for (const auto& [key, bytes] : memory_.Of(snapshot)) {
      out += before;
      before = ",";
      out += '"' + key + "\":{";
      if (bytes.current) out += "\"current_bytes\":", AppendJsonInt(out, *bytes.current);
      if (bytes.current && bytes.peak) out += ',';
      if (bytes.peak) out += "\"peak_bytes\":", AppendJsonInt(out, *bytes.peak);
      out += '}';
    }
    return out + "},\n\"cuda_latency\":{},\"nccl_duration\":{},\"dataloader_wait\":{},\"dist_sync\":{}";
  }

  std::mutex making_;  // guards the page, the finder, the compressor and last_size_
  JsonSnapshot page_;
  MemoryByProcess memory_{kGpuProcessMemoryUsed, kGpuProcessMemoryPeak};
  GzipCompressor gzip_;
  size_t last_size_ = 0;
  std::mutex mutex_;  // guards what follows
  uint64_t made_for_ = 0;
  SharedBytes plain_, packed_;
};

class JsonPage final : public HttpHandler, public std::enable_shared_from_this<JsonPage> {
 public:
  explicit JsonPage(Env& env) : env_(env) {}

  void Handle(const HttpRequest& request, HttpResponder responder) override {
    Ref<const Snapshot> snapshot = env_.latest->latest();
    if (!snapshot) return responder.Send(HttpResponse::Text(503, "no tick has been closed yet"));
    bool gzip = AcceptsGzip(request.JoinedHeader("Accept-Encoding"));
    SharedBytes ready = maker_.Ready(*snapshot, gzip);
    if (ready.owner) return responder.Send(Answer(gzip, std::move(ready)));

    auto waiting = std::make_shared<HttpResponder>(std::move(responder));
    bool posted = env_.workers->Post([self = shared_from_this(), snapshot, gzip, waiting] {
      if (waiting->wanted()) waiting->Send(Answer(gzip, self->maker_.Make(*snapshot, gzip)));
    });
    if (!posted) waiting->Send(HttpResponse::Text(503, "too much work is waiting"));
  }

 private:
  static HttpResponse Answer(bool gzip, SharedBytes body) {
    HttpResponse response;
    response.content_type = "application/json";
    if (gzip) response.AddHeader("Content-Encoding", "gzip");
    response.AddHeader("Vary", "Accept-Encoding");
    response.body = std::move(body);
    return response;
  }

  Env& env_;
  PageMaker maker_;
};

class JsonSink final : public Sink {
 public:
  explicit JsonSink(Env& env) : page_(std::make_shared<JsonPage>(env)), pages_(*env.pages) {
    pages_.Put(kPath, page_);
  }
  ~JsonSink() override { pages_.TakeDown(kPath, page_.get()); }
  Status Write(const Snapshot&) override { return Ok(); }  // Requests take the latest themselves.

 private:
  const std::shared_ptr<JsonPage> page_;
  PageBoard& pages_;
};

Result<std::unique_ptr<Sink>> Create(const Config&, Env& env) {
  if (!env.pages || !env.latest || !env.workers)
    return Status{Code::kInvalidArgument, "the json sink needs the agent's server"};
  return std::unique_ptr<Sink>(std::make_unique<JsonSink>(env));
}

}  // namespace

extern const SinkSpec json_sink;
const SinkSpec json_sink{.name = "json",
                         .help = "Everything as one JSON object at /json.",
                         .on_by_default = true,
                         .options = {},
                         .create = &Create};

}  // namespace gpulens
