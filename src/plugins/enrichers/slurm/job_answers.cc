#include "plugins/enrichers/slurm/job_answers.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/parse.h"

namespace gpulens::slurm {
namespace {

using Attribute = AttributeSet::Attribute;
using Ids = std::set<std::string>;

constexpr std::pair<std::string_view, std::string JobFacts::*> kKeys[] = {
    {"slurm.job.name", &JobFacts::name},
    {"slurm.job.user", &JobFacts::user},
    {"slurm.job.account", &JobFacts::account},
    {"slurm.job.partition", &JobFacts::partition},
    {"slurm.job.qos", &JobFacts::qos},
    {"slurm.array.job.id", &JobFacts::array_job},
    {"slurm.array.task.id", &JobFacts::array_task},
    {"slurm.job.nodes", &JobFacts::nodes}};

AttributeSet Describe(const std::string& id, const JobFacts* facts, const std::string& step) {
  std::vector<Attribute> out = {{"slurm.job.id", std::string_view(id)}};
  if (!step.empty()) out.push_back({"slurm.job.step", std::string_view(step)});
  for (const auto& [key, member] : kKeys) {
    if (facts && !(facts->*member).empty()) out.push_back({key, std::string_view(facts->*member)});
  }
  return AttributeSet(std::span<const Attribute>(out));
}

const JobFacts* FactsOf(const Evidence& evidence, const std::string& id) {
  std::optional<uint64_t> number = ParseInt<uint64_t>(id);
  auto at = number ? evidence.jobs.find(*number) : evidence.jobs.end();
  return at == evidence.jobs.end() ? nullptr : &at->second;
}

std::string ListOf(const Ids& ids) {
  std::string out;
  for (const std::string& id : ids) out += (out.empty() ? "" : ",") + id;
  return out;
}

// Of a board whose slices these jobs use: what is measured on the board is of no one of them.
AttributeSet DescribeSliced(const Ids& ids) {
  const std::string names = ListOf(ids);
  return AttributeSet({{"gpu.allocation", "shared"}, {"slurm.job.ids", std::string_view(names)}});
}

AttributeSet DescribeAll(const Evidence& evidence, const Ids& ids) {
  if (ids.empty()) return {};
  AttributeSet first = Describe(*ids.begin(), FactsOf(evidence, *ids.begin()), {});
  if (ids.size() == 1) return first;
  const std::string names = ListOf(ids);
  std::vector<Attribute> common = {{"gpu.allocation", std::string_view("shared")},
                                   {"slurm.job.ids", std::string_view(names)}};
  std::vector<AttributeSet> others;
  for (auto at = std::next(ids.begin()); at != ids.end(); ++at)
    others.push_back(Describe(*at, FactsOf(evidence, *at), {}));
  for (auto [key, value] : first) {
    const bool all = std::ranges::all_of(
        others, [&](const AttributeSet& other) { return other.Has(key) && other.Find(key, false) == value; });
    if (all) common.push_back({key, value});
  }
  return AttributeSet(std::span<const Attribute>(common));
}

// What is said of one GPU, by who says it.
struct Said {
  Ids mapped, listed, seen, claimed;  // a prolog; Slurm's lists; control groups; environments

  Ids Users() const { return !seen.empty() ? seen : claimed; }
  Ids Holders() const {
    const Ids& told = !mapped.empty() ? mapped : listed;
    return told.empty() || !Has(told) ? Users() : told;
  }

 private:
  // Everyone who is known to use it must have it.
  bool Has(const Ids& told) const {
    return std::ranges::all_of(seen, [&](const std::string& id) { return told.contains(id); });
  }
};

// The GPU of a place in Slurm's list; nothing where another GPU is known to have its number.
std::optional<int> IndexOf(const Evidence& evidence, int place) {
  for (const auto& [index, file] : evidence.files) {
    if (file == place) return index;
  }
  return evidence.files.contains(place) ? std::nullopt : std::optional(place);
}

}  // namespace

Answers Answer(const Evidence& evidence) {
  Answers out;
  std::map<int, Said> said;
  for (const auto& [pid, process] : evidence.processes) {
    const std::string id = std::to_string(process.job.job);
    JobFacts facts = process.job.facts;
    if (const JobFacts* known = FactsOf(evidence, id)) {
      facts = *known;
      facts.Add(process.job.facts);
    }
    out.processes[pid] = Describe(id, &facts, process.job.step);
    if (process.gpu < 0) continue;
    Said& gpu = said[process.gpu];
    (process.job.by_cgroup ? gpu.seen : gpu.claimed).insert(id);
  }
  for (const auto& [index, ids] : evidence.mapping) said[index].mapped.insert(ids.begin(), ids.end());
  for (const auto& [id, facts] : evidence.jobs) {
    for (int place : facts.gpus.value_or(std::vector<int>())) {
      if (auto index = IndexOf(evidence, place)) said[*index].listed.insert(std::to_string(id));
    }
  }
  for (const auto& [index, gpu] : said) {
    out.gpus[index] = DescribeAll(evidence, gpu.Holders());
    if (const Ids users = gpu.Users(); !users.empty()) out.used[index] = DescribeSliced(users);
  }
  return out;
}

}  // namespace gpulens::slurm
