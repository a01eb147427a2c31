// `gpulens explain WORD`: what an XID, a metric, a check or an LLM engine is, from the tables of this
// program.
#pragma once

#include <string>
#include <vector>

namespace gpulens {

struct ExplainOptions {
  std::vector<std::string> words;  // "79", "xid 79", "gpu.power.draw", "gpu_temperature", "vllm"
  bool json = false;
};

// 0 printed, 2 a word that no table has.
int RunExplain(const ExplainOptions& options);

}  // namespace gpulens
