#include "plugins/sinks/remote_write/remote_write_labels.h"

#include <algorithm>
#include <string_view>

#include "catalog/prometheus_name.h"

namespace gpulens {
namespace {

constexpr std::string_view kTargetInfoAlone[] = {"service.", "host.",    "os.",
                                                 "cloud.",   "process.", "telemetry."};

}  // namespace

RemoteWriteLabels RemoteWriteLabelsOf(const AttributeSet& resource) {
  RemoteWriteLabels labels;  // the first of equal names counts
  const std::string space = resource.Text("service.namespace"), id = resource.Text("service.instance.id");
  labels.emplace_back("job", (space.empty() ? "" : space + "/") + resource.Text("service.name"));
  labels.emplace_back("instance", id.empty() ? resource.Text("host.name") : id);
  for (auto [key, value] : resource) {
    const bool elsewhere = std::ranges::any_of(
        kTargetInfoAlone, [&](std::string_view prefix) { return key.starts_with(prefix); });
    if (elsewhere) continue;
    std::string label, text;
    AppendPrometheusLabel(label, key);
    AppendValue(text, value);
    labels.emplace_back(std::move(label), std::move(text));
  }
  return labels;
}

}  // namespace gpulens
