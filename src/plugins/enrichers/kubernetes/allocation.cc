// What holds of a device by all who hold it.

#include <algorithm>
#include <set>

#include "plugins/enrichers/kubernetes/workloads.h"

namespace gpulens::kubernetes {
namespace {

using Attribute = AttributeSet::Attribute;

// One list of names on a series; who shares a GPU with more than this is counted.
constexpr size_t kMostNames = 16;

std::string NamesOf(const Table& table, const Table::Holders& holders) {
  std::set<std::string_view> names;
  for (uint32_t holder : holders) names.insert(table.workloads[holder].name);
  std::string out;
  size_t told = 0;
  for (std::string_view name : names) {
    if (told == kMostNames) break;
    if (told++ != 0) out += ',';
    out += name;
  }
  if (names.size() > told) out += ",+" + std::to_string(names.size() - told);
  return out;
}

// The same for everything that this node has.
bool IsOfNode(std::string_view key) noexcept {
  return key == "k8s.node.name" || key == "cloud.availability_zone" || key == "cloud.region";
}

void MakeUnique(Table::Holders& holders) {
  std::sort(holders.begin(), holders.end());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
}

AttributeSet DescribeShared(const Table& table, const Table::Holders& holders, bool of_node_only) {
  const AttributeSet& first = table.workloads[holders.front()].attributes;
  std::string names = NamesOf(table, holders);
  std::vector<Attribute> common = {{"gpu.allocation", std::string_view("shared")},
                                   {"k8s.pod.names", std::string_view(names)}};
  for (auto [key, value] : first) {
    if (of_node_only && !IsOfNode(key)) continue;
    bool all = std::all_of(holders.begin() + 1, holders.end(), [&](uint32_t holder) {
      const AttributeSet& other = table.workloads[holder].attributes;
      return other.Has(key) && other.Find(key, false) == value;
    });
    if (all) common.push_back({key, value});
  }
  return AttributeSet(std::span<const Attribute>(common));
}

}  // namespace

AttributeSet Describe(const Table& table, Table::Holders holders) {
  MakeUnique(holders);
  if (holders.empty()) return {};
  if (holders.size() == 1) return table.workloads[holders.front()].attributes;
  return DescribeShared(table, holders, false);
}

AttributeSet DescribeSliced(const Table& table, Table::Holders holders) {
  MakeUnique(holders);
  return holders.empty() ? AttributeSet() : DescribeShared(table, holders, true);
}

}  // namespace gpulens::kubernetes
