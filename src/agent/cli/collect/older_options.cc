#include "agent/cli/collect/older_options.h"

#include <algorithm>
#include <utility>

namespace gpulens {

std::string_view SinkOptionOf(std::string_view sink, std::string_view given) {
  constexpr std::string_view kOld = "otel_";
  return sink == "otlp" && given.starts_with(kOld) ? given.substr(kOld.size()) : given;
}

Result<bool> OlderResource::Take(std::string_view given, std::string_view value) {
  std::string_view key;
  for (std::string_view start : {"metric_resource_attributes.", "log_resource_attributes."}) {
    if (!given.starts_with(start)) continue;
    key = given.substr(start.size());
    if (key.empty())
      return Status{Code::kInvalidArgument, std::string(given) + "KEY=TEXT names no attribute"};
  }
  if (key.empty()) return false;
  if (value.find(',') != value.npos || key.find(',') != key.npos)
    return Status{Code::kInvalidArgument, std::string(given) +
                                              ": a comma divides attributes; the configuration's "
                                              "resource.attributes takes any text"};
  auto known = std::ranges::find(taken_, key, &std::pair<std::string, std::string>::first);
  if (known == taken_.end()) taken_.emplace_back(key, value);
  else if (known->second != value)
    return Status{Code::kInvalidArgument, "metrics and logs have one resource, so \"" + std::string(key) +
                                              "\" cannot be \"" + known->second + "\" and \"" +
                                              std::string(value) + "\""};
  return true;
}

void OlderResource::AddTo(std::vector<FlagValue>& flags) const {
  if (taken_.empty()) return;
  std::string all;
  for (const auto& [key, value] : taken_) all += (all.empty() ? "" : ",") + key + "=" + value;
  flags.push_back({"-o metric_resource_attributes", "resource.attributes", std::move(all)});
}

std::string OlderLogLevels(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (text == "warning") return "warn";
  return text == "critical" ? "error" : text;
}

}  // namespace gpulens
