// `gpulens cost push`.
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/cost/cost_command.h"
#include "config/value_parse.h"
#include "net/client/http_client.h"
#include "store/ledger/servers/ledger_servers.h"

namespace gpulens {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr auto kShortest = std::chrono::seconds(10);

// Hours that were over when the agent last wrote.
Result<ledger::PushCounts> PushOnce(const CostOptions& options) {
  int64_t since = 0;
  if (!options.since.empty()) {
    ASSIGN_OR_RETURN(const CostRange range, RangeOf(options, RealClock().Now().unix_ns));
    since = range.since_unix;
  }
  ASSIGN_OR_RETURN(const auto ledger, OpenLedger(options));
  ASSIGN_OR_RETURN(const int64_t written_ns, ledger->WrittenUnixNs());
  return PushLedger(*ledger, options.url, since, written_ns / kHourNs * (kHourNs / 1'000'000'000));
}

std::string Counts(const ledger::PushCounts& counts) {
  return Plural(counts.hours, "hour", "hours") + " with " + Plural(counts.entries, "entry", "entries") +
         " copied, " + Plural(counts.unchanged, "hour was", "hours were") + " there\n";
}

}  // namespace

Result<int> PushCost(const CostOptions& options) {
  if (!ledger::IsLedgerServer(options.url))
    return Status{Code::kInvalidArgument,
                  UrlName(options.url) + ": expected postgresql://… or clickhouse://…"};
  LinkSecurePost();
  Duration every{};
  if (!options.every.empty() && (ParseTimeValue(options.every, every) || every < kShortest))
    return Status{Code::kInvalidArgument,
                  "--every " + options.every + ": expected a time of at least 10s, as 1h"};
  if (every.count() == 0) {
    ASSIGN_OR_RETURN(const ledger::PushCounts counts, PushOnce(options));
    return PrintText(Counts(counts));
  }
  // Until it is ended by a signal. A failure is reported, and the hours are copied by a later turn.
  for (;;) {
    const auto counts = PushOnce(options);
    if (!counts && counts.error().code == Code::kInvalidArgument) return counts.error();
    if (!counts) static_cast<void>(FailCommand("cost push", counts.error()));
    else if (counts->hours > 0 && !WriteOut(Counts(*counts))) return 1;
    std::this_thread::sleep_for(every);
  }
}

}  // namespace gpulens
