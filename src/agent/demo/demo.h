// What `agent --demo` runs next to the simulated GPUs: pages of engines on loopback ports, their targets, the
// owners of GPUs and processes, and what runs inside jobs. docs/demo.md describes it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "agent/control/memory_file.h"
#include "agent/demo/demo_jobs.h"
#include "agent/demo/demo_node.h"
#include "net/http/http_server.h"
#include "pipeline/enricher_set.h"
#include "plugins/plugin.h"

namespace gpulens::demo {

// The variable that names a scenario, and the words for none and for CalmScenario().
inline constexpr const char* kScenarioVariable = "GPULENS_DEMO_SCENARIO";
inline constexpr std::string_view kNoScenario = "none", kCalmScenario = "calm";

// The text of the scenario that `wanted`, a file, "none" or "calm", selects; empty: none. Without it the
// variable counts; without both it is the built-in one, unless GPULENS_FAKE_NVML describes other GPUs.
Result<std::string> FindScenario(const std::string& wanted);

// Started and stopped while the loop runs; Change on the loop, the rest on any thread.
class Demo {
 public:
  // kInvalidArgument: an error of the scenario. `env` outlives it; its state_dir is the demo's own.
  static Result<std::unique_ptr<Demo>> Start(std::string_view scenario, Env& env);
  ~Demo();  // after Stop
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  // "set WORDS", "stop WORDS", "heal [WORDS]", "status": see DemoNode.
  Result<std::string> Change(std::string_view command);
  const std::vector<FoundTarget>& targets() const noexcept { return targets_; }
  // "9 simulated pages, by curl http://…; gpulens sim status lists them".
  std::string Summary() const;
  // Closes the pages; before the loop ends. The owners stay.
  void Stop();
  // Of the simulated NVIDIA library.
  int profile_fd() const noexcept { return profile_.fd(); }
  const DemoNode& node() const noexcept { return node_; }
  // The configuration with what collectors need to read the demo's jobs, where it sets nothing else of it.
  static Config WithJobs(Config config);
  // Adds its owners, in place of those enrichers that would look for simulated pids among real ones.
  static void ReplaceEnrichers(std::vector<EnricherSet::Setup>& setups);

 private:
  class Page;

  Demo(Scenario scenario, DemoNode::Options options, Env& env);
  Status Listen();
  // Brings what depends on who runs up to date, again and again.
  void Refresh();
  void Follow();
  std::string Describe() const;

  Env& env_;
  DemoNode node_;
  std::unique_ptr<DemoJobs> jobs_;  // used by the loop; null: the agent reads no job pages
  MemoryFile profile_;
  uint64_t running_ = 0;
  bool written_ = false;
  IoLoop::TimerId timer_ = 0;
  std::vector<std::unique_ptr<Page>> pages_;
  std::vector<std::unique_ptr<HttpServer>> servers_;  // after the pages, which they call
  std::vector<FoundTarget> targets_;
};

}  // namespace gpulens::demo
