// `gpulens cost …`: reports on the ledger.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "store/ledger/ledger_file.h"

namespace CLI {
class App;
}

namespace gpulens {

inline constexpr int64_t kHourSeconds = 3600, kDaySeconds = 86'400;

struct CostOptions {
  std::string file, config_file;
  std::string since, until, period;  // text; empty: open
  std::string by = "tenant";
  std::vector<std::string> where;  // "tenant=acme"
  bool energy = false, carbon = false, wasted = false;
  std::string charges;               // a path or URL; empty: the report is of the ledger alone
  std::vector<std::string> engines;  // "PROVIDER=ENGINE"
  bool json = false, csv = false;
  std::string output;              // of statement and export; empty: standard output
  std::string previous;            // file of the statement before
  bool open = false;               // a statement of a period that is not over
  std::string statement, against;  // of verify
  std::string focus;               // version; empty: none
  bool opencost = false, entries = false;
  std::string url, every;  // of push
};

// Hours with since <= hour < until, in seconds since 1970.
struct CostRange {
  int64_t since_unix = 0, until_unix = 0;
};
// The hour in which --since lies up to the hours before --until; by default 30 days up to now. With --period
// a year, month or day in UTC. kInvalidArgument: a time cannot be parsed, or the range is empty.
Result<CostRange> RangeOf(const CostOptions& options, int64_t now_unix_ns);

// The agent's ledger, or --file, read-only. The message of a failure has what to do.
Result<std::unique_ptr<ledger::LedgerFile>> OpenLedger(const CostOptions& options);

// Each returns the exit code or an error.
Result<int> ReportCost(const CostOptions& options);
Result<int> MakeStatement(const CostOptions& options);
Result<int> VerifyStatement(const CostOptions& options);
Result<int> ExportCost(const CostOptions& options);
Result<int> PushCost(const CostOptions& options);

// A file that is replaced as a whole, or the standard output.
class CostOutput {
 public:
  static Result<CostOutput> Open(const std::string& path);
  CostOutput(CostOutput&& other) noexcept = default;
  CostOutput& operator=(CostOutput&&) = delete;
  // Without Close a file is as it was.
  ~CostOutput();

  Status Write(std::string_view text);
  Status Close();

 private:
  CostOutput(std::string path, std::string made, std::FILE* file)
      : path_(std::move(path)), made_(std::move(made)), file_(file) {}
  struct Closer {
    void operator()(std::FILE* file) const noexcept {
      if (file != stdout) std::fclose(file);
    }
  };
  std::string path_, made_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace gpulens
