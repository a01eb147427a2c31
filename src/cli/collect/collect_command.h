// `gpulens collect`: runs one collector and one sink without an agent. An analyzer runs over all collectors
// of GPUs, and only its series are shown. The name of an LLM engine is one target of the collector `targets`,
// shown together with the series of the analyzer `inference`.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "pipeline/pipeline.h"
#include "plugins/event_queue.h"
#include "sources/job_pages/job_pages.h"

namespace gpulens {

struct CollectOptions {
  std::string target;                          // a collector, an analyzer or an engine
  std::string sink;                            // empty: a table
  std::string config_file;                     // as for the agent
  std::string interval;                        // text; empty: the collector's own
  std::string cluster;                         // an attribute of every series
  std::string endpoint;                        // the page's URL; empty: the target's own
  std::string endpoint_option = "--endpoint";  // the option that set it, for messages
  std::string engine_url;                      // the page of a vLLM server that is read for an analyzer
  std::vector<std::pair<std::string, std::string>> options;  // -o key=value, of the target or the sink
  bool once = false;
  bool json = false;
  bool demo = false;
  bool strict = false;
  bool genai = false;          // OpenTelemetry's gen_ai names in addition to the native ones
  bool gpus_only = false;      // on stdout: one element per GPU and part of it, nothing else
  bool queries_cloud = false;  // the enricher `cloud` is on: the metadata service of this machine is queried
};

// Runs until a signal, or once. Returns the exit code: 0 something was read, 1 nothing could be read (or,
// with `strict`, a reading was stale or rejected), 2 wrong use.
int RunCollect(const CollectOptions& options);

// Lists the names of all targets, in lines of 78 columns.
std::string TargetNames();
// Returns the same names.
std::vector<std::string> TargetWords();

// Prints every collector, what it reads and whether that is available, then every analyzer. Returns the exit
// code: 0, or 2 for a bad configuration.
int ListCollectors(const std::string& config_file, bool demo);

inline constexpr std::string_view kTargetsCollector = "targets";
inline constexpr std::string_view kEnginesAnalyzer = "inference";
inline constexpr std::string_view kCostAnalyzer = "cost";  // reads GPUs, and the page of an engine

// Whether the table of LLM engines has the name.
bool IsEngine(std::string_view name) noexcept;
// Whether the name is that of a page: an engine, "dcgm", or a collector of an earlier version ("engines",
// "scrape", "gpu_page").
bool IsPage(std::string_view name) noexcept;
std::vector<std::string_view> EngineNames();
// "http://localhost:8000/metrics"; empty for a page without a usual URL.
std::string PageUrl(std::string_view name);

// Replaces a page as options.target by the collector `targets` with the options of one target; -o name, kind
// and url override them. With a configuration file and no endpoint, the targets of the file are read.
void ResolvePage(CollectOptions& options);

struct SessionOptions {
  bool once = false;    // one snapshot, with the rates, which need two readings
  bool strict = false;  // a reading that is stale or rejected is a failure
  bool demo = false;
  std::vector<const CollectorSpec*> collectors;
  // Null: the frames of the collectors are shown. Otherwise only that of this analyzer is.
  const AnalyzerSpec* analyzer = nullptr;
  // With `once`: readings of an engine's page, which the values of its tokens need.
  int readings = 2;
  // Its series are added to those of the collectors; may be null.
  const AnalyzerSpec* extra_analyzer = nullptr;
  std::string_view command = "collect";  // for messages
};

// Used from one thread. Make the sink with env(), then Run it once.
class CollectSession {
 public:
  // `config` was loaded with MakeSchema's schema.
  CollectSession(SessionOptions options, const Config& config);

  Env& env() { return env_; }
  // Runs until one snapshot was written (`once`), the sink has set `enough` in a Write, or a signal comes.
  // Returns the exit code: 0 something was read, 1 nothing could be read or written, or, with `strict`, a
  // reading was stale or rejected. Reports errors on stderr.
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
  JobPages job_pages_;
  SeriesBudget budget_;
  Env env_;
  PipelinePlan plan_;
  std::unique_ptr<Pipeline> pipeline_;
  Duration interval_{};                   // of the quickest collector
  Duration first_reading_{};              // its timeout
  Instant started_;                       // set before the pipeline starts
  std::map<std::string, uint64_t> runs_;  // by collector; used by the thread that closes ticks
  std::optional<Instant> taken_;          // when the last record's tick closed; used by that thread

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  Ref<const Snapshot> newest_;
  int good_ticks_ = 0;
  bool stop_ = false;
};

}  // namespace gpulens
