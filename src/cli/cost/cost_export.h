// `gpulens cost export`: the ledger in the formats of other programs. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/cost/cost_command.h"
#include "store/ledger/ledger_file.h"

namespace gpulens {

// FOCUS 1.2 (https://focus.finops.org): a row for the GPU time of each entry, and one for its electricity
// where that has a price. Costs are those by allocation. Decimals have a point, no exponent and at most 12
// digits behind it; an unknown value is empty. Columns that begin with x_ are ours.
std::string FocusHead();
// `ledger` and `host` are the billing account: its id and name.
void AppendFocusRows(std::string& out, const ledger::HourEntry& entry, std::string_view ledger,
                     std::string_view host);

// What OpenCost's /allocation answers: {"code":200,"data":[{NAME: allocation, …}, …]}, a set for each day of
// the range that has entries.
Result<std::string> OpenCostJson(ledger::LedgerFile& ledger, const CostRange& range);

}  // namespace gpulens
