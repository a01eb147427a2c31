// The contract of the stores of charges (a file, PostgreSQL, ClickHouse), and their questions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "store/charges/charge_record.h"

namespace gpulens {

// What sums are grouped and filtered by.
enum class ChargeDimension : uint8_t {
  kTenant,
  kKey,
  kProvider,
  kModel,  // that answered; the requested one where that is unknown
  kTier,
  kProfile,
  kRegion,
  kOperation,
  kOutcome,
  kCountedBy,
  kCurrency,
  kDay,      // of settled_unix_ns: "2026-11-26"
  kBudgets,  // all of a request: BudgetsText
};
inline constexpr size_t kChargeDimensions = 13;
// "tenant", "counted_by". Static storage.
std::string_view Name(ChargeDimension dimension) noexcept;
// False, and `out` unchanged, for another text.
bool Parse(std::string_view text, ChargeDimension& out) noexcept;

struct ChargeQuery {
  int64_t since_unix_ns = 0, until_unix_ns = INT64_MAX;             // since <= settled_unix_ns < until
  std::vector<ChargeDimension> by = {};                             // empty: one row
  std::vector<std::pair<ChargeDimension, std::string>> where = {};  // all must hold
};
// Sums of records; of money they cannot overflow.
struct ChargeSums {
  int64_t requests = 0;
  __int128 list_pico = 0, charged_pico = 0,
           reserved_unsettled_pico = 0;  // the last: the bounds of `unsettled`
  std::array<int64_t, kLlmClasses> units{};

  bool operator==(const ChargeSums&) const = default;
};
struct ChargeSumRow {
  std::vector<std::string> key;  // as `by`
  ChargeSums sums;
};

// What a budget has spent in its window.
struct SpentWindow {
  std::string budget;
  int64_t since_unix_ns = 0;
};

struct IdempotentCharge {
  std::string key;
  IdempotencyHash hash{};
  RequestId id{};
  int64_t settled_unix_ns = 0;
  int64_t status = 0;
};

// A page of records begins behind this one.
struct ChargePlace {
  int64_t settled_unix_ns = 0;
  RequestId id{};
};

struct ChargeWriteCounts {
  uint64_t stored = 0;
  uint64_t known = 0;  // had a row with their id; nothing was changed
};

// Used by one thread at a time.
class ChargeStore {
 public:
  virtual ~ChargeStore() = default;

  // Adds a row for each record whose id has none yet; all are kept when it returns, and a failure is repeated
  // with the same records. At most kMostBatch. kInvalidArgument: the store refuses what a record contains,
  // and will again. Other errors pass.
  static constexpr size_t kMostBatch = 1000;
  virtual Result<ChargeWriteCounts> Write(std::span<const ChargeRecord> records) = 0;

  // Rows in the order of their keys. At most kMostRows: then kExhausted.
  static constexpr size_t kMostRows = 100'000;
  virtual Result<std::vector<ChargeSumRow>> Sum(const ChargeQuery& query) = 0;
  // charged_pico of each window, in the same order.
  virtual Result<std::vector<__int128>> Spent(std::span<const SpentWindow> windows) = 0;
  // Records behind `after` in the order of (settled_unix_ns, id), at most `limit` (and kMostBatch), of those
  // that `which` lets through; its `by` is not used.
  virtual Result<std::vector<ChargeRecord>> List(const ChargePlace& after, size_t limit,
                                                 const ChargeQuery& which = {}) = 0;
  // The newest charge with this key and hash since then.
  virtual Result<std::optional<IdempotentCharge>> FindIdempotent(std::string_view key,
                                                                 const IdempotencyHash& hash,
                                                                 int64_t since_unix_ns) = 0;
  // All with a hash since then, the oldest first.
  virtual Result<std::vector<IdempotentCharge>> ListIdempotent(int64_t since_unix_ns) = 0;
};

}  // namespace gpulens
