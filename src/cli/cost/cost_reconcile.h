// `gpulens cost reconcile`: what the proxy has charged against what a provider has counted and billed. All
// but AddReconcile is pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gpulens/status.h>

#include "pricing/usage_export.h"
#include "store/charges/charge_record.h"

namespace CLI {
class App;
}

namespace gpulens {

// Adds the command to `cost`.
void AddReconcile(CLI::App& cost, int& code);

// Part of the larger of two amounts: "0", "1%", "0.25%".
struct Tolerance {
  int64_t part = 0;  // of kWhole
  static constexpr int64_t kWhole = 100'000'000;

  bool Allows(__int128 a, __int128 b) const noexcept;
};
bool ParseTolerance(std::string_view text, Tolerance& out) noexcept;

// One day of a model at a tier. Texts are empty where the export has none.
struct ReconcileKey {
  int64_t day = 0;  // days since 1970 in the zone
  std::string provider, model, tier;

  auto operator<=>(const ReconcileKey&) const = default;
};

// The proxy's side of a group: sums of requests that a provider may have billed.
struct ChargedGroup {
  pricing::UsageAmounts amounts;  // money at list prices
  __int128 charged_pico = 0;
  // What may explain a difference.
  int64_t failed = 0;           // got an error and used nothing: not among the requests
  int64_t unsettled = 0;        // the proxy ended before them
  __int128 unsettled_pico = 0;  // at most
  int64_t cut = 0;              // counted up to the cut of the answer
  int64_t estimated = 0;        // counted by bytes or events
  int64_t unpriced = 0;         // no price was known
  int64_t over_midnight = 0;    // dispatched on one day, settled on a later one
  int64_t uncertain = 0;        // attempts without an answer, which a provider may have billed
  __int128 uncertain_pico = 0;
  std::set<std::string> price_versions;  // at most kMostVersions

  static constexpr size_t kMostVersions = 4;
  void Add(const ChargeRecord& record, int64_t zone_s);
  void Add(const ChargedGroup& other);
};

// Requests by day, provider, model that answered, and tier.
class ChargedUsage {
 public:
  explicit ChargedUsage(int64_t zone_s) : zone_s_(zone_s) {}
  // kExhausted: more groups than kMostGroups.
  static constexpr size_t kMostGroups = 200'000;
  Status Add(const ChargeRecord& record);

  const std::map<ReconcileKey, ChargedGroup>& groups() const noexcept { return groups_; }
  int64_t own_keys() const noexcept { return own_keys_; }  // paid by the client's own account: left out
  int64_t other_currency() const noexcept { return other_currency_; }  // left out

 private:
  int64_t zone_s_;
  std::map<ReconcileKey, ChargedGroup> groups_;
  int64_t own_keys_ = 0, other_currency_ = 0;
};

struct ReconcileGroup {
  ReconcileKey key;
  bool here = false, there = false;
  ChargedGroup charged;
  pricing::UsageAmounts billed;
  uint8_t different = 0;            // bit of UsageMeasure
  std::vector<std::string> causes;  // likely ones, as sentences
};

// Against files of one format.
struct ReconcileSection {
  std::string format;
  std::vector<std::string> files;
  uint8_t measures = 0;  // that are compared
  bool models = false, tiers = false;
  int64_t begin_s = 0, end_s = 0;
  std::vector<ReconcileGroup> groups;  // in the order of their keys
  size_t rounded = 0;
  size_t different = 0;  // groups

  // Sums of all groups.
  pricing::UsageAmounts charged, billed;
};

struct UsageFile {
  std::string name;
  pricing::UsageExport content;
};

struct ReconcileTerms {
  std::vector<std::string> providers;  // as the proxy names them; empty: those of the files
  int64_t zone_s = 0;
  Tolerance tolerance;
  int64_t since_s = INT64_MIN, until_s = INT64_MAX;  // buckets within
  int64_t now_s = INT64_MAX;
};

// What the files cover of the time of the terms. kInvalidArgument: nothing, a page that is missing, or a
// bucket that is not within one day of the zone.
struct ReconcileSpan {
  int64_t begin_s = 0, end_s = 0;
  std::vector<std::string> providers;
};
Result<ReconcileSpan> SpanOf(const std::vector<UsageFile>& files, const ReconcileTerms& terms);

struct Reconciliation {
  std::vector<ReconcileSection> sections;
  std::vector<std::string> notes;
  int64_t zone_s = 0;
  bool equal() const noexcept;
};
// `charged` has the requests that were settled in the span. kInvalidArgument: the files cannot be compared.
Result<Reconciliation> Reconcile(const std::vector<UsageFile>& files, const ChargedUsage& charged,
                                 const ReconcileTerms& terms);

// For a width of 80 columns. `all`: groups that are equal, too.
std::string ReconcileText(const Reconciliation& made, bool all, size_t width);
// {"schema":"gpulens.cost_reconcile/1", …}
std::string ReconcileJson(const Reconciliation& made);
// A line for each group and measure.
std::string ReconcileCsv(const Reconciliation& made);

}  // namespace gpulens
