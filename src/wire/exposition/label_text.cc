#include "wire/exposition/label_text.h"

#include <cstddef>

namespace gpulens {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";
constexpr std::string_view kReservedLabel = "__name__", kApartPrefix = "exported_";
// Names never stop changing on some pages.
constexpr size_t kMostWritten = 1000;

}  // namespace

void AppendEscaped(std::string& out, std::string_view text, bool quotes) {
  for (char c : text) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '"' && quotes) out += "\\\"";
    else if (c == '\0') out += kReplacementCharacter;  // Readers end at it.
    else out += c;
  }
}

void LabelText::Append(std::string& out, std::span<const Label> labels, std::string_view taken) {
  if (written_.size() > kMostWritten) written_.clear();
  names_.clear();
  for (const auto& [name, value] : labels) names_.push_back(Shown(name));
  if (!AllApart(taken)) Distinguish(taken);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i != 0) out += ',';
    out += names_[i].shown;
    out += "=\"";
    AppendEscaped(out, labels[i].second, true);
    out += '"';
  }
}

LabelText::Name LabelText::Shown(std::string_view name) {
  if (IsLegacyLabelName(name) || name.empty()) return {name};
  const bool quoted = form_.escaping == NameEscaping::kUtf8;
  auto [at, added] = written_.try_emplace(std::string(name));
  if (added && quoted) {
    at->second = '"';
    AppendEscaped(at->second, name, true);
    at->second += '"';
  } else if (added) {
    at->second = EscapeLabelName(name, form_.escaping);
  }
  return {at->second, quoted};
}

// Mostly names stand in order, and then a look at neighbours is enough.
bool LabelText::AllApart(std::string_view taken) const {
  bool ordered = true;
  for (size_t i = 0; i < names_.size(); ++i) {
    const std::string_view name = names_[i].shown;
    if (name.empty() || name == kReservedLabel || name == taken) return false;
    ordered = ordered && (i == 0 || names_[i - 1].shown < name);
  }
  if (ordered) return true;
  for (size_t i = 1; i < names_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (names_[i].shown == names_[j].shown) return false;
    }
  }
  return true;
}

void LabelText::Distinguish(std::string_view taken) {
  apart_.clear();
  std::unordered_map<std::string_view, size_t> used = {{"", 0}, {kReservedLabel, 0}, {taken, 0}};
  auto find_own = [&](Name& name) {
    auto [at, is_new] = used.emplace(name.shown, 0);
    if (is_new) return;
    size_t& clashes = at->second;  // Stays where it is, unlike `at`.
    const bool quoted = name.shown.starts_with('"');
    const std::string_view clashing = name.shown;
    do {
      std::string apart(quoted ? "\"" : "");
      apart += kApartPrefix;
      if (++clashes > 1) apart.append(std::to_string(clashes)).append("_");
      apart += clashing.substr(quoted ? 1 : 0);
      name.shown = apart_.emplace_back(std::move(apart));
    } while (!used.emplace(name.shown, 0).second);
  };
  // Whose name it is from the start goes first, then in their order.
  for (bool own : {true, false}) {
    for (Name& name : names_) {
      if (name.own == own) find_own(name);
    }
  }
}

}  // namespace gpulens
