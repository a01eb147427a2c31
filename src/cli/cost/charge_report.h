// `gpulens cost report --charges`: what a proxy charged, as a table, JSON or CSV. Exact: integers alone.
//
// Requests of the profile byoc are charged nothing: their share is a part of what the engine's GPUs cost by
// the ledger (charge_share.h). A request counts in the hour in which it ended.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "cli/cost/charge_share.h"
#include "cli/cost/cost_command.h"
#include "store/charges/charge_store.h"
#include "store/ledger/ledger_file.h"

namespace gpulens {

// The shares of byoc requests. Those without are requests whose hour the ledger does not have, whose tokens
// are not known, or (of money) whose GPUs had no price.
struct ChargeShares {
  int64_t requests = 0;
  int64_t without_cost = 0, without_energy = 0;
  EngineAmount amount = {};  // of the others

  // None: no request has one.
  std::optional<__int128> pico() const noexcept;
  std::optional<__int128> energy_uj() const noexcept;
  ChargeShares& operator+=(const ChargeShares& other) noexcept;
  bool operator==(const ChargeShares&) const = default;
};

struct ChargeReportRow {
  std::vector<std::string> key;  // as ChargeReport::by
  ChargeSums sums;
  ChargeShares shares;
};

// The engines that serve some providers, in the whole range. The four parts add up to the whole, which is
// what the ledger has of them.
struct ChargedEngines {
  std::vector<std::string> providers, engines;
  EngineAmount whole, requests, others, held, undivided;
  __int128 unpriced_ms = 0;  // of their GPUs' time: had no price
  bool known = false;        // the ledger has hours of them
};

struct ChargeReport {
  std::string charges;  // where they are from, without a password
  std::string ledger;   // its path; empty: none was read
  CostRange range;
  std::vector<std::string> by;
  std::vector<ChargeReportRow> rows;
  ChargeReportRow total;
  bool overlapping = false;  // by budget: a request is in the row of each of its budgets
  std::string currency;      // empty: USD
  std::vector<ChargedEngines> engines;
  bool energy = false;
};

// The names that --by and --where take: those of ChargeDimension, and "budget".
std::vector<std::string_view> ChargeKeys();

// `ledger` null: byoc requests have no share. kInvalidArgument: a key that is none, or amounts of several
// currencies, which are not added.
Result<ChargeReport> ReadChargeReport(ChargeStore& charges, ledger::LedgerFile* ledger,
                                      const CostOptions& options, const CostRange& range);

// A line is rounded half to even, to cents or, of less than 10 USD, to millionths; the line `rounding` makes
// the lines add up to the total.
std::string ChargeReportText(const ChargeReport& report, size_t width);
// {"schema":"gpulens.charge_report/1", …}: each amount as an integer, and as a decimal text.
std::string ChargeReportJson(const ChargeReport& report);
std::string ChargeReportCsv(const ChargeReport& report);

// `gpulens cost report --charges …`. Returns the exit code or an error.
Result<int> ReportCharges(const CostOptions& options);

}  // namespace gpulens
