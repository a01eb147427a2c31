// The words of `gpulens bench serve` as a plan.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "cli/bench/load_run.h"
#include "cli/bench/load_summary.h"

namespace gpulens {

struct BenchOptions {
  std::string url, model;
  uint32_t concurrency = 0;  // 0: 8, with a rate 1,000
  double rate = 0;
  uint64_t requests = 0;
  std::string duration;
  int64_t warmup = -1;  // -1: as many as are in flight, where that leaves most of them
  uint32_t prompt_tokens = 128, shared_prefix = 0, max_tokens = 128;
  bool ignore_eos = false, whole = false, completions = false;
  std::vector<std::string> targets, headers;
  std::string api_key_variable, ca_file;
  bool insecure = false;
  std::string timeout = "2m";
  uint64_t seed = 1;
  bool json = false, quiet = false;
  std::string store, engine;
  bool energy = false;  // also where the server's address is not this machine's
};

struct BenchPlan {
  LoadPlan load;
  LoadTargets targets;
  HttpUrl models;  // which models there are
};

// kInvalidArgument names the option and what is wrong with it.
Result<BenchPlan> MakeBenchPlan(const BenchOptions& options);

}  // namespace gpulens
