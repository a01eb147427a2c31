// Prometheus remote write, 1.0 and 2.0, as OTLP metrics: one request in, one ExportMetricsServiceRequest out.
// Pure. What becomes of what: docs/receivers.md.
//
// Series are put in order by job, instance, scope and name, so that each resource and each metric is
// there once; within a series samples keep their order. A series or a histogram that cannot be passed on is
// left out and counted; invalid bytes make the whole request useless.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/otlp/otlp_schema.h"
#include "wire/remote_write/native_histogram.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_series.h"

namespace gpulens {

// Outcome of one request. A plain value.
struct RemoteWriteOutcome {
  uint64_t samples = 0, histograms = 0, exemplars = 0;  // that are in what was made
  uint64_t refused = 0;                                 // samples and histograms that are not
  std::array<uint64_t, kRemoteWriteFaults> faults{};    // the same by why

  // For the sender: "3 of 9 samples were not written: a label occurs twice (2), …". Empty when none was
  // refused.
  std::string Text() const;
};

// Not thread-safe. Does not allocate once requests are no larger than those before, but for types that are
// new. Remembers the types that senders of 1.0 declare; nothing else is kept between requests.
class RemoteWriteIn {
 public:
  struct Limits {
    size_t bytes = size_t{32} << 20;  // of the result, where text of the request may be repeated
    uint32_t series = 100'000;
    // Histograms that OTLP cannot represent (counts of floating point, gauge histograms) are refused. With
    // this they become points without a value that carry the histogram in a field that only RemoteWriteOut
    // knows: for data that leaves by remote write.
    bool carry_histograms = false;
  };

  explicit RemoteWriteIn(Limits limits) : limits_(limits) { CarryHistograms(limits.carry_histograms); }
  // Takes effect with the next Convert.
  void CarryHistograms(bool carry) noexcept {
    limits_.carry_histograms = carry;
    histogram_.AcceptAll(carry);
  }

  // Replaces `out` and `outcome`. kInvalidArgument: invalid bytes; kExhausted: beyond the
  // limits. Then `out` is of no use.
  Status Convert(std::string_view request, RemoteWriteVersion version, std::string& out,
                 RemoteWriteOutcome& outcome);

 private:
  using Labels = remote_write::Labels;
  // Form of a series in OTLP; a metric has one form.
  enum class Form : uint8_t { kGauge, kCounter, kState, kExponential, kExplicit };
  // Points of one TimeSeries that have one form.
  struct Item {
    std::string_view job, instance, scope, scope_version, name, help, unit;
    std::string_view family;  // of 1.0
    std::string_view series;
    int64_t created_ms = 0;
    uint32_t points = 0;
    Form form = Form::kGauge;
    bool exemplars = false;  // those of the series are this item's
    remote_write::Type type = remote_write::Type::kUnknown;
  };
  // Exemplars that came without a sample: `to` is the place in order_ of the item that they are put on.
  struct Loose {
    std::string_view series;
    uint32_t to = 0;
  };
  // Points of one series by form.
  struct Parts {
    uint32_t samples = 0, exponential = 0, bounded = 0, exemplars = 0;
  };
  // Places of the lengths of open messages.
  struct Place {
    size_t resource = 0, scope = 0, metric = 0, data = 0;
  };
  // Parts that two items have in common.
  struct Shared {
    bool resource, scope, metric;
  };
  struct Hashed {
    uint64_t hash;
    uint32_t place;
  };

  Status ReadHead(std::string_view request);
  bool Learn(std::string_view metadata);
  Status Plan(std::string_view request);
  Status PlanSeries(std::string_view series);
  void Describe(Item& item, const remote_write::SeriesAbout& about) const;
  bool CountParts(std::string_view series, RemoteWriteFault of_labels, remote_write::SeriesAbout& about,
                  Parts& parts);
  bool CountHistogram(std::string_view message, RemoteWriteFault of_labels, Parts& parts);
  void Refuse(RemoteWriteFault fault);
  static uint64_t HashOfMetric(const Item& item) noexcept;
  static bool IsBefore(const Hashed& a, const Hashed& b) noexcept;
  static bool IsLess(const Item& a, const Item& b) noexcept;
  void Order();
  void PlaceLoose();
  uint64_t HashOfLabels(std::string_view series);

  Status Write(std::string& out);
  static Shared Compare(const Item& item, const Item* other) noexcept;
  void Enter(std::string& out, const Item& item, const Item* before);
  void Leave(std::string& out, const Item& item, const Item* next);
  void WriteItem(std::string& out, const Item& item, uint32_t place);
  static uint32_t DataOf(Form form) noexcept;
  static otlp::ItemFields FieldsOf(Form form) noexcept;
  void EncodeAttributes(const Item& item);
  void GatherExemplars(std::string_view series, uint32_t field);
  void AppendExemplar(std::string_view message, uint32_t field);
  void WriteNumber(const Item& item, const remote_write::SeriesSample& sample);
  void WriteExponential();
  void WriteExplicit();
  bool WriteHistogram(const Item& item, std::string_view message);
  void Times(int64_t start_ms, int64_t ms);
  void FinishPoint(std::string& out, bool with_exemplars);

  Limits limits_;
  RemoteWriteTypes types_;
  RemoteWriteVersion version_ = RemoteWriteVersion::k1;
  remote_write::LabelReader reader_;
  RemoteWriteOutcome* outcome_ = nullptr;

  std::vector<Item> items_;
  std::vector<uint32_t> order_;  // of items_
  std::vector<Loose> loose_;
  std::vector<Hashed> hashed_;     // scratch
  std::vector<uint32_t> metrics_;  // the same: where in hashed_ each begins
  uint64_t expanded_ = 0;          // bytes of what will be made, roughly, but for labels
  // Of what is written.
  Place place_;
  size_t next_loose_ = 0;
  uint64_t exemplar_count_ = 0;
  Labels labels_, other_labels_;
  NativeHistogram histogram_;
  std::string attributes_, exemplars_, exemplar_, point_, part_, unit_;
};

}  // namespace gpulens
