#include "plugins/analyzers/cost/engine_binding.h"

#include <algorithm>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::cost {
namespace {

// Keeps the only engine that fits.
class OnlyOne {
 public:
  void Add(std::string_view engine) noexcept {
    if (any_ && engine != engine_) several_ = true;
    any_ = true;
    engine_ = engine;
  }
  bool any() const noexcept { return any_; }
  std::string_view engine() const noexcept { return several_ ? std::string_view() : engine_; }

 private:
  std::string_view engine_;
  bool any_ = false, several_ = false;
};

bool Contains(const std::vector<int64_t>& list, int64_t number) noexcept {
  return std::ranges::find(list, number) != list.end();
}

}  // namespace

bool PodName::Is(const PodName& other) const noexcept {
  if (!uid.empty() && !other.uid.empty()) return uid == other.uid;
  return !name.empty() && name == other.name && !name_space.empty() && name_space == other.name_space;
}

PodName PodOf(const AttributeSet& attributes) {
  return {attributes.Text("k8s.pod.uid"), attributes.Text("k8s.namespace.name"),
          attributes.Text("k8s.pod.name")};
}

Status EngineRules::AddWord(std::string_view word, Rule& rule) {
  const std::string_view key = TakeUntil(word, '=');
  Status wrong{Code::kInvalidArgument,
               "engines: " + rule.engine + ": expected gpu=0-3, gpu=GPU-<uuid>, pid=123 or pod=NAME"};
  if (word.empty()) return wrong;
  if (key == "pod") {
    const size_t slash = word.find('/');
    PodName pod;
    if (slash != word.npos) pod.name_space = word.substr(0, slash);
    pod.name = slash == word.npos ? word : word.substr(slash + 1);
    if (pod.name.empty()) return wrong;
    rule.pods.push_back(std::move(pod));
    return Ok();
  }
  while (!word.empty()) {
    std::string_view part = TakeUntil(word, ',');
    if (key == "gpu" && part.size() > 4 && !ParseInt<int64_t>(part.substr(0, 1))) {
      rule.uuids.emplace_back(part);
      continue;
    }
    std::string_view last_text = part;
    const auto first = ParseInt<int64_t>(TakeUntil(last_text, '-'));
    const auto last = last_text.empty() ? first : ParseInt<int64_t>(last_text);
    if (!first || !last || part.ends_with('-') || *first < 0 || *last < *first) return wrong;
    if (key == "gpu") rule.gpus.emplace_back(*first, *last);
    else if (key == "pid" && *first > 0 && first == last) rule.pids.push_back(*first);
    else return wrong;
  }
  return Ok();
}

Result<EngineRules> EngineRules::Parse(const std::map<std::string, std::string>& option) {
  EngineRules out;
  for (const auto& [engine, text] : option) {
    Rule rule;
    rule.engine = engine;
    std::string_view rest = Trim(text);
    if (rest.empty()) rest = "=";
    while (!rest.empty()) {
      RETURN_IF_ERROR(AddWord(TakeUntil(rest, ' '), rule));
      rest = Trim(rest);
    }
    out.rules_.push_back(std::move(rule));
  }
  return out;
}

bool EngineRules::Rule::HasGpu(int64_t index, std::string_view uuid) const noexcept {
  return std::ranges::any_of(gpus,
                             [&](auto range) { return index >= range.first && index <= range.second; }) ||
         std::ranges::any_of(uuids, [&](const std::string& one) { return one == uuid; });
}

bool EngineRules::Rule::HasPod(const PodName& pod) const noexcept {
  return std::ranges::any_of(pods, [&](const PodName& one) {
    return one.name == pod.name && (one.name_space.empty() || one.name_space == pod.name_space);
  });
}

bool EngineRules::Rule::Has(const ProcessIdentity& process) const noexcept {
  return HasGpu(process.gpu_index, process.gpu_uuid) || Contains(pids, process.pid) ||
         std::ranges::any_of(process.parents, [&](int64_t pid) { return Contains(pids, pid); }) ||
         HasPod(process.pod);
}

bool EngineRules::IsConfigured(std::string_view engine) const noexcept {
  return std::ranges::any_of(rules_, [&](const Rule& rule) { return rule.engine == engine; });
}

std::string_view EngineRules::EngineOf(const ProcessIdentity& process,
                                       const std::vector<EngineIdentity>& engines) const {
  OnlyOne configured;
  for (const Rule& rule : rules_) {
    if (rule.Has(process)) configured.Add(rule.engine);
  }
  if (configured.any()) return configured.engine();

  // The nearest: an engine may have been started by another one.
  auto serves = [&](int64_t pid, OnlyOne& out) {
    for (const EngineIdentity& engine : engines) {
      if (pid > 0 && engine.pid == pid && !IsConfigured(engine.name)) out.Add(engine.name);
    }
    return out.any();
  };
  OnlyOne by_pid;
  if (serves(process.pid, by_pid)) return by_pid.engine();
  for (int64_t parent : process.parents) {
    if (serves(parent, by_pid)) return by_pid.engine();
  }

  OnlyOne by_pod;
  for (const EngineIdentity& engine : engines) {
    if (!IsConfigured(engine.name) && engine.pod.Is(process.pod)) by_pod.Add(engine.name);
  }
  return by_pod.engine();
}

std::string_view EngineRules::EngineOfGpu(int64_t gpu_index, std::string_view gpu_uuid, const PodName& pod,
                                          const std::vector<EngineIdentity>& engines) const {
  OnlyOne configured;
  for (const Rule& rule : rules_) {
    if (rule.HasGpu(gpu_index, gpu_uuid) || rule.HasPod(pod)) configured.Add(rule.engine);
  }
  if (configured.any()) return configured.engine();
  OnlyOne by_pod;
  for (const EngineIdentity& engine : engines) {
    if (!IsConfigured(engine.name) && engine.pod.Is(pod)) by_pod.Add(engine.name);
  }
  return by_pod.engine();
}

}  // namespace gpulens::cost
