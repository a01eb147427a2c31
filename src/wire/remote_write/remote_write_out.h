// Received OTLP metrics as Prometheus remote write, 1.0 and 2.0: one ExportMetricsServiceRequest in, some
// requests out, in its order and not yet compressed. Pure. What becomes of what: docs/receivers.md.
//
// Output of RemoteWriteIn leaves as it came: names, labels, values, times, types, exemplars,
// native histograms. Other OTLP is translated as Prometheus' own OTLP endpoint does. A point that cannot be
// sent is left out and counted by its reason.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "wire/otlp/proto_cursor.h"
#include "wire/remote_write/native_histogram.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_request.h"
#include "wire/remote_write/remote_write_series.h"

namespace gpulens::remote_write {

// Series on their way into requests: collected with their symbols, then written as requests of at most so
// many samples and bytes. Inside src/wire/remote_write only. Not thread-safe; keeps its memory.
class SeriesBatch {
 public:
  struct Limits {
    size_t samples = 2000, bytes = 1u << 20;  // of one request
  };
  // Takes one request; its bytes live until it returns. Not ok ends the conversion.
  using Take = std::function<Status(std::string_view request, uint32_t samples)>;
  struct About {
    remote_write::Type type = remote_write::Type::kUnknown;
    std::string_view help, unit;
  };

  SeriesBatch(RemoteWriteVersion version, Limits limits) : version_(version), limits_(limits) {}
  SeriesBatch(const SeriesBatch&) = delete;
  SeriesBatch& operator=(const SeriesBatch&) = delete;

  // Forgets everything that was not written.
  void Begin(RemoteWriteVersion version, const Take& take);
  // Adds `samples` samples or histograms, whose fields are `data`, to the series with these labels, which are
  // sorted by name. False, and nothing is added: the series alone would be larger than a request.
  bool Add(const About& about, const Labels& labels, std::string_view data, uint32_t samples);
  // Adds an exemplar to the series that was added last.
  bool AddExemplar(const Labels& labels, double value, int64_t ms);
  // A MetricMetadata message of 1.0.
  bool AddMetadata(std::string_view message);
  // Whether so much is collected that Drain should be called.
  bool full() const noexcept;
  // Writes what was added and forgets it. The status is that of `take`.
  Status Drain();
  uint64_t bytes() const noexcept { return bytes_; }  // written since Begin

 private:
  struct Exemplar {
    double value;
    int64_t ms;
    uint32_t first_ref, refs;
  };
  // Of one line of layout_.
  struct Part {
    size_t data_end, cost;
    uint32_t samples, exemplars_end;
  };
  struct Slot {
    uint64_t hash = 0;
    uint32_t round = 0, symbol = 0;
  };

  void Clear();
  uint32_t Intern(std::string_view text);
  void Grow();
  size_t AppendRefs(const Labels& labels);
  uint32_t FamilyOf(const About& about);
  void WriteExemplar(const Exemplar& exemplar);
  Status Hand();

  RemoteWriteVersion version_;
  const Limits limits_;
  const Take* take_ = nullptr;
  RemoteWriteLayout layout_;
  RemoteWriteSymbols symbols_;
  RemoteWriteRequest request_{symbols_};
  std::vector<Part> parts_;
  std::vector<Exemplar> exemplars_;
  std::string data_, series_, message_, metadata_;
  std::vector<size_t> metadata_ends_;
  std::vector<Slot> slots_;
  uint32_t round_ = 0;
  uint32_t in_request_ = 0;  // samples of request_
  bool open_ = false;        // request_ holds something
  uint64_t bytes_ = 0;
  uint64_t cost_ = 0;  // of what is collected, as it will be written
};

}  // namespace gpulens::remote_write

namespace gpulens {

// Outcome of one request. A plain value.
struct RemoteWriteOutOutcome {
  uint64_t points = 0;                                   // of OTLP that were sent
  uint64_t samples = 0, histograms = 0, exemplars = 0;   // of remote write that they became
  uint64_t dropped = 0;                                  // points of OTLP that were not sent, or not whole
  std::array<uint64_t, kRemoteWriteOutFaults> faults{};  // the same by reason

  // For the log: "3 of 10 points were not sent: the metric has delta temporality (3)". Empty when none was.
  std::string Text() const;
};

// Not thread-safe; keeps its memory. Remembers which metadata of 1.0 it sent when; nothing else.
class RemoteWriteOut {
 public:
  struct Options {
    RemoteWriteVersion version = RemoteWriteVersion::k1;
    size_t max_samples = 2000;                 // samples and histograms of one request
    size_t max_bytes = 1u << 20;               // of one request
    uint64_t max_total = uint64_t{256} << 20;  // bytes of all requests of one call, roughly
    bool native_histograms = false;            // explicit bounds as one series with custom bounds
    bool names_as_they_are = false;            // UTF-8 names, without suffixes of unit and type
    bool scope_labels = false;                 // otel_scope_name, otel_scope_version
    bool target_info = true;                   // a series of each resource with its attributes
    bool mark_received = false;                // gpulens.receiver as a label
    // Resource attributes that become labels of each series. Nothing: all but what describes service, host,
    // system, cloud and program (service.*, host.*, os.*, cloud.*, process.*, telemetry.*).
    std::optional<std::vector<std::string>> promoted = std::nullopt;
    // Interval at which 1.0 repeats types, help and units that did not change.
    Duration metadata_interval = std::chrono::minutes(1);
  };
  using Take = remote_write::SeriesBatch::Take;

  explicit RemoteWriteOut(Options options);

  // Replaces `outcome`. `now` decides which metadata is due. kDataLoss: the bytes cannot be read; what came
  // before may have been taken. Otherwise the status of `take`; then the whole request may be converted
  // again.
  Status Convert(std::string_view request, Instant now, const Take& take, RemoteWriteOutOutcome& outcome);
  // Takes effect with the next Convert.
  void SetVersion(RemoteWriteVersion version) noexcept { options_.version = version; }
  RemoteWriteVersion version() const noexcept { return options_.version; }

 private:
  using Fault = RemoteWriteOutFault;
  using Label = remote_write::Label;
  using Labels = remote_write::Labels;
  // A label before equal names are joined.
  struct Pair {
    std::string_view key, name, value;
  };
  // Properties that the points of one metric share. Views into the request or members.
  struct Metric {
    std::string_view name, help, unit, family;
    remote_write::Type type = remote_write::Type::kUnknown;
    std::string_view data;
    uint32_t data_field = 0;
    uint64_t temporality = 0;
    bool monotonic = false;
    bool verbatim = false;  // it came by remote write
    Fault fault = Fault::kNone;
  };
  struct Sent {
    uint64_t hash = 0;
    int64_t boot_ns = 0;
  };
  struct Exemplar {
    double value = 0;
    std::string_view message;
  };

  Status ReadResourceMetrics(std::string_view message);
  bool ReadResource(std::string_view message);
  Status ReadScopeMetrics(std::string_view message);
  Status ReadMetric(std::string_view message);
  void ReadMetricMetadata(std::string_view pair, Metric& metric);
  Fault Validate(const Metric& metric) const noexcept;
  void Translate(Metric& metric);
  Status ReadPoints(const Metric& metric);
  Fault ReadPoint(const Metric& metric);

  Fault WriteNumber(const Metric& metric);
  Fault WriteHistogram(const Metric& metric);
  Fault WriteClassic(const Metric& metric);
  Fault WriteExponential(const Metric& metric);
  Fault WriteSummary(const Metric& metric);
  void WriteTargetInfo();
  Fault PutValue(const Metric& metric, std::string_view suffix, Label extra, double value);
  Fault PutHistogram(const Metric& metric, Fault fault);
  Fault PutSeries(const Metric& metric, std::string_view suffix, Label extra, bool histogram);
  void PutExemplars(bool verbatim);
  void PutExemplar(std::string_view message, bool verbatim);
  void PutMetadata(const Metric& metric);

  std::string& Room();
  bool ReadPair(std::string_view message, bool verbatim, Pair& out);
  void BuildLabels(const Metric& metric);
  void JoinPairs(Labels& out, bool verbatim);
  void AddResourceLabels(Labels& labels, bool verbatim) const;
  bool IsPromoted(std::string_view key) const;
  Status Drain();
  void Drop(Fault fault, uint64_t points = 1);

  Options options_;
  remote_write::SeriesBatch batch_;
  remote_write::NativeWriter native_;
  remote_write::OtlpPoint point_;
  RemoteWriteOutOutcome* outcome_ = nullptr;
  Status status_;  // of Drain
  Instant now_;

  // Of the resource.
  // plain: of OTLP that did not come by remote write
  std::string job_, plain_job_, instance_, plain_instance_;
  std::vector<std::pair<std::string, std::string>> promoted_;
  std::vector<std::string_view> resource_;  // its attributes
  int64_t info_ms_ = 0;                     // the newest time of a point that is not verbatim
  Fault resource_fault_ = Fault::kNone;
  std::string_view scope_name_, scope_version_;
  std::string name_, unit_;  // of the metric, translated
  int64_t ms_ = 0, start_ms_ = 0;
  std::vector<Pair> pairs_;
  Labels labels_, series_labels_, exemplar_labels_;
  std::vector<Exemplar> exemplars_;
  std::deque<std::string> rooms_;  // texts of one point
  size_t used_rooms_ = 0;
  std::string full_name_, data_, message_;
  std::unordered_map<std::string, Sent> sent_;
};

}  // namespace gpulens
