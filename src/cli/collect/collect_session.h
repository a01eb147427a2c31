// One turn of `gpulens collect`: a pipeline of a few instances, whose frames go to one sink.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/workers.h"
#include "cli/collect/collect_command.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "pipeline/pipeline.h"
#include "plugins/event_queue.h"

namespace gpulens {

inline constexpr std::string_view kTargetsCollector = "targets";
inline constexpr std::string_view kEnginesAnalyzer = "inference";

// Whether the table of LLM engines has the name.
bool IsEngine(std::string_view name) noexcept;
// Whether the name is a page's: an engine, "dcgm", or a collector of an earlier version ("engines", "scrape",
// "gpu_page").
bool IsPage(std::string_view name) noexcept;
std::vector<std::string_view> EngineNames();
// "http://localhost:8000/metrics"; empty for a page without a usual URL.
std::string PageUrl(std::string_view name);

// Where options.target is a page, makes it the collector `targets` with the options of one target; -o name,
// kind and url override them. With a configuration file and no endpoint, the targets of the file are read.
void ResolvePage(CollectOptions& options);

struct SessionOptions {
  bool once = false;    // one snapshot, made when rates are there: they need two readings
  bool strict = false;  // a reading that is stale or rejected is a failure
  bool demo = false;
  std::vector<const CollectorSpec*> collectors;
  // Null: the collectors' frames are shown. Else this one's frame alone is, and the collectors feed it.
  const AnalyzerSpec* analyzer = nullptr;
  // Its series of the collectors' entities are shown with theirs; may be null.
  const AnalyzerSpec* beside = nullptr;
  std::string_view command = "collect";  // for messages
};

// Used from one thread. Make the sink with env(), then Run it once.
class CollectSession {
 public:
  // `config` was loaded with MakeSchema's schema.
  CollectSession(SessionOptions options, const Config& config);

  Env& env() { return env_; }
  // Until one snapshot was written (`once`), or the sink has set `enough` in a Write, or a signal comes. 0
  // something was read, 1 nothing could be read or written, or, strictly, something was doubtful; why is told
  // on stderr.
  int Run(Sink& sink, const bool* enough = nullptr);

 private:
  void OnSnapshot(const Ref<const Snapshot>& snapshot);
  Ref<const Snapshot> OnlyOurs(const Snapshot& snapshot) const;
  // Whether every collector has read, or reported why it cannot.
  bool AllAnswered() const;
  // Whether a collector has read since the last call.
  bool HasNewReading(const Snapshot& snapshot);
  Status Feed(Sink& sink, const bool* enough, bool& any);
  Status WhyNothing() const;
  bool Doubtful() const;

  const SessionOptions options_;
  IoLoop io_;
  HttpClient client_{io_};
  Workers workers_{2};
  LatestSnapshot hub_;
  EventQueue queue_;
  SeriesBudget budget_;
  Env env_;
  PipelinePlan plan_;
  std::unique_ptr<Pipeline> pipeline_;
  Duration interval_{};                   // of the quickest collector
  Duration first_reading_{};              // how long it may take
  Instant started_;                       // set before the pipeline starts
  std::map<std::string, uint64_t> runs_;  // by collector; of the thread that closes ticks
  std::optional<Instant> taken_;          // when the last record's tick closed; of that thread, too

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  Ref<const Snapshot> newest_;
  int good_ticks_ = 0;
  bool stop_ = false;
};

}  // namespace gpulens
