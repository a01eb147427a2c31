#include "scrape/engine/engine_labels.h"

#include <algorithm>

#include "base/parse.h"

namespace gpulens::engine_page {

std::string_view LabelOf(const std::vector<PageLabel>& labels, std::string_view name) noexcept {
  for (const PageLabel& label : labels) {
    if (label.name == name) return label.value;
  }
  return {};
}

LabelPlan::LabelPlan(std::string_view labels) {
  while (!labels.empty()) {
    std::string_view text = TakeUntil(labels, ',');
    if (text.starts_with('+')) {
      std::string_view key = TakeUntil(text, '=');
      ops_.push_back({Op::kAdd, key.substr(1), text});
    } else if (text.ends_with('!')) {
      ops_.push_back({Op::kDrop, text.substr(0, text.size() - 1), {}});
    } else if (size_t at = text.find('>'); at != std::string_view::npos) {
      std::string_view attribute = text.substr(at + 1), map;
      if (size_t open = attribute.find('('); open != std::string_view::npos) {
        map = attribute.substr(open + 1, attribute.size() - open - 2);
        attribute = attribute.substr(0, open);
      }
      ops_.push_back({Op::kBecomes, text.substr(0, at), attribute, map});
    } else if (size_t sign = text.find_first_of("=?~"); sign != std::string_view::npos) {
      std::string_view name = text.substr(0, sign), value = text.substr(sign + 1);
      if (text[sign] == '=') ops_.push_back({Op::kOnly, name, value});
      else choices_.push_back({name, value, text[sign] == '?'});
    }
  }
}

void LabelPlan::Look(const std::vector<PageLabel>& labels) noexcept {
  for (Choice& choice : choices_) {
    std::string_view value = LabelOf(labels, choice.label);
    choice.active |= choice.preferred ? value == choice.value : !value.empty() && value != choice.value;
  }
}

bool LabelPlan::Takes(const std::vector<PageLabel>& labels) const noexcept {
  for (const Choice& choice : choices_) {
    if (!choice.active) continue;
    if ((LabelOf(labels, choice.label) == choice.value) != choice.preferred) return false;
  }
  return std::all_of(ops_.begin(), ops_.end(), [&](const Op& op) {
    return op.kind != Op::kOnly || LabelOf(labels, op.name) == op.text;
  });
}

std::string_view LabelPlan::Mapped(std::string_view map, std::string_view value) noexcept {
  while (!map.empty()) {
    std::string_view to = TakeUntil(map, ' ');
    std::string_view from = TakeUntil(to, ':');
    bool same = from.ends_with('*') ? value.starts_with(from.substr(0, from.size() - 1)) : value == from;
    if (same) return to;
  }
  return value;
}

void LabelPlan::Apply(const std::vector<PageLabel>& labels, bool all, Attributes& out) const {
  out.clear();
  for (const PageLabel& label : labels) {
    if (label.value.empty()) continue;
    auto op = std::find_if(ops_.begin(), ops_.end(),
                           [&](const Op& o) { return o.kind != Op::kAdd && o.name == label.name; });
    if (op == ops_.end()) {
      if (all) out.emplace_back(label.name, label.value);
    } else if (op->kind == Op::kBecomes) {
      out.emplace_back(op->text, Mapped(op->map, label.value));
    }
  }
  for (const Op& op : ops_) {
    if (op.kind == Op::kAdd) out.emplace_back(op.name, op.text);
  }
}

}  // namespace gpulens::engine_page
