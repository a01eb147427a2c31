#include "cli/compare/own_readings.h"

#include "base/parse.h"

namespace gpulens::compare {
namespace {

// As in ToolField; empty for what no tool tells of.
std::string OwnSubject(const SeriesInfo& series, KeyBy key_by) {
  const std::string_view type = series.entity ? std::string_view(series.entity->type) : std::string_view();
  const AttributeSet& has = series.attributes;
  const std::string key = has.Text(key_by == KeyBy::kUuid ? "gpu.uuid" : "gpu.index");
  std::string instance;
  if (has.Has("gpu.mig.instance_id")) {
    instance = "/" + has.Text("gpu.mig.instance_id") + "/" +
               (has.Has("gpu.mig.compute_instance_id") ? has.Text("gpu.mig.compute_instance_id") : "0");
  }
  if (type.empty()) return "machine";
  if (key.empty()) return {};
  if (type == "gpu") return "gpu:" + key;
  if (type == "mig") return "mig:" + key + instance;
  if (type == "process") return "process:" + key + "/" + has.Text("process.pid") + instance;
  return {};
}

OwnValue ValueOf(const Frame& frame, uint32_t slot, const SeriesInfo& series) {
  OwnValue out;
  out.metric = std::string(series.desc->name);
  out.kind = series.desc->kind;
  for (auto [key, value] : series.attributes) {
    std::string text;
    AppendValue(text, value);
    out.attributes.emplace_back(std::string(key), std::move(text));
  }
  out.present = frame.quality[slot] != Quality::kAbsent;
  if (!out.present) {
    out.absence = std::string(slot < frame.absence.size() ? AbsenceName(frame.absence[slot]) : "not_read");
    return out;
  }
  const gpulens::Cell& cell = frame.cells[series.first_cell];
  out.value = series.desc->number == gpulens::Number::kDouble ? cell.d : static_cast<double>(cell.i);
  return out;
}

}  // namespace

bool OwnValue::Has(std::string_view wanted) const noexcept {
  while (!wanted.empty()) {
    std::string_view text = TakeUntil(wanted, ','), key = TakeUntil(text, '=');
    if (Text(key) != text) return false;
  }
  return true;
}

std::string_view OwnValue::Text(std::string_view key) const noexcept {
  for (const auto& [has, text] : attributes) {
    if (has == key) return text;
  }
  return {};
}

OwnReadings ReadOwn(const Snapshot& snapshot, KeyBy key_by) {
  OwnReadings out;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Frame& frame = *entry.frame;
    for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
      const SeriesInfo& series = (*frame.layout)[slot];
      if (!series.desc || series.shape) continue;
      std::string subject = OwnSubject(series, key_by);
      if (!subject.empty()) out[subject].push_back(ValueOf(frame, slot, series));
    }
  }
  return out;
}

}  // namespace gpulens::compare
