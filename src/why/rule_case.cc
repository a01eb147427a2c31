#include "why/rule_case.h"

#include <algorithm>
#include <cstdio>

namespace gpulens::why_detail {
namespace {

std::string InputText(const WhyInput& input) {
  std::string text(input.metric->name);
  if (input.key.empty()) return text;
  text.append("{").append(input.key).append("=").append(input.value);
  if (!input.key2.empty()) text.append(",").append(input.key2).append("=").append(input.value2);
  return text += "}";
}

std::string SecondsText(int64_t seconds) { return std::to_string(seconds) + " s"; }

}  // namespace

std::string Percent(double share) {
  char text[32];
  double percent = share * 100;
  std::snprintf(text, sizeof(text), percent > 0 && percent < 9.95 ? "%.1f %%" : "%.0f %%", percent);
  return text;
}

std::string Whole(double value) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.0f", value);
  std::string text = digits;
  for (size_t at = text.size(); at > 3 + (text[0] == '-') && at <= text.size();) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

RuleCase::RuleCase(const WhyRule& r, const NodeSeries& n, WhySubject s)
    : rule(r), node(n), subject(std::move(s)) {
  for (const WhyRole& role : rule.roles) tracks.push_back(node.Get(subject, role, rule.seconds));
}

std::string RuleCase::MissingOf(const Track& track, const WhyRole& role, int& wait) const {
  if (!track.exists()) {
    std::string text = "no series ";
    for (size_t i = 0; i < role.any_of.size(); ++i)
      text.append(i == 0 ? "" : " or ").append(InputText(role.any_of[i]));
    return text;
  }
  const std::string name = InputText(*track.input);
  if (track.first_ms == 0) return name + " has no value";
  const int64_t age = (node.to_ms() - track.last_ms) / 1000;
  if (age > track.fresh || (age > 0 && (track.stale || track.gap))) {
    return name + (track.stale ? " is stale: its value is " + SecondsText(age) + " old"
                               : " has had no value for " + SecondsText(age));
  }
  const auto known = static_cast<int>(track.KnownIn(static_cast<size_t>(rule.seconds)));
  if (known >= rule.least_seconds) return {};
  const auto has = static_cast<int>((node.to_ms() - track.first_ms) / 1000);
  if (has < rule.least_seconds + track.fresh) {
    wait = std::max(wait, rule.least_seconds - known);
    return "history too short: has " + SecondsText(has) + ", needs " + SecondsText(rule.least_seconds);
  }
  return name + " is known for " + std::to_string(known) + " of the last " + SecondsText(rule.seconds) +
         (track.reset ? ": its counter began again" : "");
}

std::string RuleCase::Missing(int& wait) const {
  for (size_t i = 0; i < tracks.size(); ++i) {
    if (!rule.roles[i].needed) continue;
    if (std::string why = MissingOf(tracks[i], rule.roles[i], wait); !why.empty()) return why;
  }
  return {};
}

WhyEvidence RuleCase::Evidence(const Track& track) const {
  WhyEvidence out;
  out.metric = track.input->metric->name;
  out.unit = track.input->metric->unit;
  const AttributeSet& set = track.latest->series.attributes;
  auto add = [&](std::string_view key) {
    if (std::string value = set.Text(key); !value.empty()) out.attributes.emplace_back(key, std::move(value));
  };
  add(subject.kind == WhyKind::kEngine ? "target" : "gpu.index");
  // Of a sum over several series only what they share.
  if (track.input->combine == WhyInput::Combine::kOne) {
    for (std::string_view key : track.input->metric->keys) add(key);
  } else if (!track.input->key.empty()) {
    out.attributes.emplace_back(track.input->key, track.input->value);
    if (!track.input->key2.empty()) out.attributes.emplace_back(track.input->key2, track.input->value2);
  }
  out.value = track.Mean(static_cast<size_t>(rule.seconds));
  out.since_ms = std::max(track.first_ms, node.to_ms() - int64_t{rule.seconds} * 1000);
  out.is = "mean of " + SecondsText(rule.seconds);
  if (track.counter) {
    if (out.unit == "s") out.unit = "1";  // seconds a second
    else out.unit += "/s";
    out.is = "growth a second, " + out.is;
  }
  return out;
}

WhyFinding RuleCase::Found(const Held& held, std::string sentence, std::initializer_list<size_t> roles,
                           WhyCost cost) const {
  WhyFinding out;
  out.sentence = std::move(sentence);
  out.since_ms = held.since_ms;
  out.since_begin = held.since_begin;
  for (size_t role : roles)
    if (Knows(role)) out.evidence.push_back(Evidence(tracks[role]));
  if (!std::isnan(cost.share)) cost.share = std::clamp(cost.share, 0.0, 1.0);
  out.cost = cost;
  return out;
}

}  // namespace gpulens::why_detail
