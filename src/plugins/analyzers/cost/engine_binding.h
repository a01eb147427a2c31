// Which engine a process on a GPU belongs to. Never guesses: a process that fits two engines by one rule
// belongs to neither. Plain values, and a pure function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "core/attribute_set.h"

namespace gpulens::cost {

// A pod by its uid or, where one of two uids is unknown, by namespace and name. Empty: none is known.
struct PodName {
  std::string uid, name_space, name;

  bool empty() const noexcept { return uid.empty() && (name_space.empty() || name.empty()); }
  bool Is(const PodName& other) const noexcept;
  bool operator==(const PodName&) const = default;
};
PodName PodOf(const AttributeSet& attributes);

// An engine that has a page.
struct EngineIdentity {
  std::string name;  // of its target
  int64_t pid = 0;   // of the process that serves the page; 0: unknown
  PodName pod;
  bool operator==(const EngineIdentity&) const = default;
};

// A process on a GPU.
struct ProcessIdentity {
  int64_t pid = 0;
  std::vector<int64_t> parents;  // its parent first; empty: unknown
  int64_t gpu_index = -1;        // -1: unknown
  std::string gpu_uuid;
  PodName pod;
};

// The option `engines`: where the processes of a target are. Immutable.
class EngineRules {
 public:
  EngineRules() = default;
  // By target: "gpu=0-3,6", "gpu=GPU-<uuid>", "pid=123", "pod=NAME", "pod=NAMESPACE/NAME", or several with
  // blanks between. kInvalidArgument, with the target, for another text.
  static Result<EngineRules> Parse(const std::map<std::string, std::string>& option);

  // Returns the name of the engine of the process; empty: of none, or it is not certain. The first rule
  // that any engine fits decides:
  //   the option; the process itself or its nearest ancestor that serves a page; the pod.
  // An engine with an option has only what the option names. A view into `engines` or these rules.
  std::string_view EngineOf(const ProcessIdentity& process, const std::vector<EngineIdentity>& engines) const;
  // Of a whole GPU that a pod has: by the option `gpu` or `pod`, or by the pod.
  std::string_view EngineOfGpu(int64_t gpu_index, std::string_view gpu_uuid, const PodName& pod,
                               const std::vector<EngineIdentity>& engines) const;

 private:
  struct Rule {
    std::string engine;
    std::vector<std::pair<int64_t, int64_t>> gpus;  // first and last index
    std::vector<std::string> uuids;
    std::vector<int64_t> pids;
    std::vector<PodName> pods;

    bool HasGpu(int64_t index, std::string_view uuid) const noexcept;
    bool HasPod(const PodName& pod) const noexcept;
    bool Has(const ProcessIdentity& process) const noexcept;
  };
  bool IsConfigured(std::string_view engine) const noexcept;
  static Status AddWord(std::string_view word, Rule& rule);

  std::vector<Rule> rules_;
};

}  // namespace gpulens::cost
