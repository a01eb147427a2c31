// `gpulens cost report`: sums of the ledger as a table, JSON or CSV. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/cost/cost_command.h"
#include "store/ledger/ledger_file.h"

namespace gpulens {

struct CostReport {
  std::string path, ledger, host;  // of the file
  CostRange range;
  std::vector<ledger::Dimension> by;
  std::vector<ledger::SumRow> rows;
  // Of a query of its own, so that the rows can be compared with it; and named parts of it.
  ledger::Totals total;
  ledger::Totals unattributed;       // energy of processes that are not known
  ledger::Totals unobserved;         // time of GPUs that were not read
  ledger::Totals unobserved_energy;  // energy that was drawn meanwhile
  ledger::Totals without_owner;      // booked on no process, pod, job, tenant, engine or model
  // Time and money by what the GPUs did, with the holder as the last of the key; of --wasted.
  std::vector<ledger::SumRow> waste;  // {state, cause, holder}
  bool energy = false, carbon = false, wasted = false;
};

// Reads it from the ledger. kDataLoss: the rows do not add up to the total.
Result<CostReport> ReadReport(ledger::LedgerFile& ledger, const CostOptions& options, const CostRange& range);

// Leaves out the rightmost columns beyond `width`; 0: any width.
std::string ReportText(const CostReport& report, size_t width);
// {"schema":"gpulens.cost_report/1", …}: each amount as an integer, and as a decimal text.
std::string ReportJson(const CostReport& report);
std::string ReportCsv(const CostReport& report);

// Hours and kWh with nine decimals, rounded half to even: their parts may differ from the sum in the last.
std::string GpuHours(__int128 time_ms);
std::string KilowattHours(__int128 energy_uj);

}  // namespace gpulens
