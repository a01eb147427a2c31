// `gpulens bench serve`: its options as a plan, and its output. Pure; AddBench of cli/help/help.h adds the
// command.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "cli/bench/bench_store.h"
#include "cli/bench/load_run.h"

namespace gpulens {

struct BenchOptions {
  BenchOptions() { load.requests = load.concurrency = 0; }  // MakeBenchPlan sets the defaults

  std::string url;
  LoadPlan load;
  std::string duration;
  int64_t warmup = -1;  // -1: as many as are in flight if that leaves most of them
  bool whole = false, completions = false;
  std::vector<std::string> targets, headers;
  std::string api_key_variable, ca_file;
  bool insecure = false;
  std::string timeout = "2m";
  bool json = false, quiet = false;
  std::string store, engine;
  bool energy = false;  // measure energy here even if the server is on another machine
};

struct BenchPlan {
  LoadPlan load;
  LoadTargets targets;
  HttpUrl models;  // the page that lists the models
};

// kInvalidArgument: an option is wrong; the detail names it and the reason.
Result<BenchPlan> MakeBenchPlan(const BenchOptions& options);

// One line without a line feed.
std::string ProgressText(const LoadPlan& plan, const LoadProgress& progress);
struct BenchResult {
  const LoadPlan& plan;
  const LoadRecord& record;
  const LoadSummary& summary;
  const BenchEnergy& energy;
  std::optional<BenchStored> stored = {};  // empty without --store
};
// Text for people, and one JSON object of the schema gpulens.bench_serve/1.
std::string ResultText(const BenchResult& result);
std::string ResultJson(const BenchResult& result);

}  // namespace gpulens
