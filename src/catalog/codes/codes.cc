#include "catalog/codes/codes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/parse.h"

namespace gpulens {
namespace {

#include "catalog/codes/code_tables.inc"

// Rows are in the order of their numbers, which tools/code_tables.py checks.
const CodeFacts* FindNumber(std::span<const CodeFacts> rows, int64_t code) noexcept {
  auto at = std::lower_bound(rows.begin(), rows.end(), code, [](const CodeFacts& row, int64_t number) {
    return ParseInt<int64_t>(row.code).value_or(0) < number;
  });
  return at != rows.end() && ParseInt<int64_t>(at->code) == code ? &*at : nullptr;
}

constexpr std::pair<std::string_view, std::string_view> kActions[] = {
    {"none", "Nothing needs to be done."},
    {"restart_app", "Restart the application."},
    {"reset_gpu", "Reset the GPU."},
    {"reboot", "Reboot the machine."},
    {"drain", "Take the work off this GPU, then diagnose it."},
    {"contact_vendor", "Ask the vendor."},
    {"check_mechanicals", "Check power cables, seating and cooling."},
};

void AppendLine(std::string& out, std::string_view key, std::string_view value) {
  out += "  ";
  out += key;
  out.append(10 - std::min<size_t>(10, key.size()), ' ');
  out += value;
  out += '\n';
}

}  // namespace

std::span<const CodeFacts> AllXids() noexcept { return kXid; }
std::span<const CodeFacts> AllSxids() noexcept { return kSxid; }
std::span<const CodeFacts> AllMessages() noexcept { return kRas; }

const CodeFacts* FindXid(int64_t code) noexcept { return FindNumber(kXid, code); }
const CodeFacts* FindSxid(int64_t code) noexcept { return FindNumber(kSxid, code); }

const CodeFacts* FindMessage(std::string_view code) noexcept {
  auto at = std::ranges::lower_bound(kRas, code, {}, &CodeFacts::code);
  return at != std::end(kRas) && at->code == code ? &*at : nullptr;
}

const CodeSource* FindCodeSource(std::string_view name) noexcept {
  auto at = std::ranges::find(kSources, name, &CodeSource::name);
  return at == std::end(kSources) ? nullptr : &*at;
}

std::string_view ActionSentence(std::string_view action) noexcept {
  for (auto [word, sentence] : kActions) {
    if (word == action) return sentence;
  }
  return {};
}

std::string Explain(std::string_view kind, const CodeFacts& facts) {
  std::string out =
      std::string(kind) + " " + std::string(facts.code) + "   " + std::string(facts.name) + "\n";
  AppendLine(out, "meaning", facts.meaning.empty() ? "not documented" : facts.meaning);
  AppendLine(out, "class", facts.klass);
  std::string action(facts.action);
  if (std::string_view sentence = ActionSentence(facts.action); !sentence.empty())
    action += ": " + std::string(sentence);
  else action += ": not documented";
  AppendLine(out, "action", action);
  AppendLine(out, "severity", facts.severity);
  std::string_view key = "source", rest = facts.sources;
  while (!rest.empty()) {
    const CodeSource* source = FindCodeSource(TakeUntil(rest, ' '));
    if (!source) continue;
    std::string line(source->citation);
    if (!source->date.empty()) line += ", " + std::string(source->date);
    AppendLine(out, key, line);
    key = "";
  }
  return out;
}

}  // namespace gpulens
