// What an engine's family means, whatever the engine calls it. Dashboards, alerts and other people's names
// follow from the role.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/metric_desc.h"

namespace gpulens {

// How numbers of one role are made one: over ranks, replicas, or labels that are dropped.
enum class Combine : uint8_t { kSum, kMean, kMax, kNewest };

struct Role {
  std::string_view name;  // as tables of engines write it: "TimeToFirstToken"
  const MetricDesc* metric = nullptr;
  Combine combine = Combine::kSum;
};

// In the order of the catalogue. Static storage.
std::span<const Role> AllRoles() noexcept;
// Null for a name, or a metric, that is no role.
const Role* FindRole(std::string_view name) noexcept;
const Role* RoleOf(const MetricDesc& metric) noexcept;

}  // namespace gpulens
