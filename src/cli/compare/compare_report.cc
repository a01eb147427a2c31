#include "cli/compare/comparison.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "base/text.h"
#include "cli/common/output.h"
#include "wire/json/json_object.h"

namespace gpulens::compare {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kFieldWidth = 34, kValueWidth = 13;

// The end of a path is more specific than its beginning.
std::string Tail(std::string_view text, size_t width) {
  if (WidthOf(text) <= width) return std::string(text);
  size_t drop = text.size() - std::min(text.size(), width - 1);
  while (drop < text.size() && (static_cast<unsigned char>(text[drop]) & 0xC0) == 0x80) ++drop;
  return "…" + std::string(text.substr(drop));
}

std::string CellText(std::string_view text, size_t width) {
  return Padded(Shortened(text.empty() ? kNoValue : Printable(text), width), width + 1, 1);
}

std::string FieldCell(std::string_view path, size_t times) {
  const std::string count = times > 1 ? " ×" + std::to_string(times) : "";
  return Padded(Tail(Printable(path), kFieldWidth - WidthOf(count)) + count, kFieldWidth + 1, 1);
}

std::string Wrapped(std::string_view text, size_t indent) {
  std::string out;
  AppendWrapped(out, text, 0, indent, kWidth);
  return out;
}

// The numbers of the reasons, in the order in which the table first names them.
class Notes {
 public:
  std::string MarkOf(const std::string& reason) {
    if (reason.empty()) return {};
    auto found = std::ranges::find(reasons_, reason);
    if (found == reasons_.end()) found = reasons_.insert(reasons_.end(), reason);
    return " [" + std::to_string(found - reasons_.begin() + 1) + "]";
  }
  std::string Text() const {
    std::string out;
    for (size_t i = 0; i < reasons_.size(); ++i) {
      const std::string mark = "[" + std::to_string(i + 1) + "] ";
      out += Wrapped(mark + Printable(reasons_[i]), mark.size());
    }
    return out;
  }

 private:
  std::vector<std::string> reasons_;
};

std::string Counts(const ToolComparison& comparison) {
  std::string out = std::to_string(comparison.fields.size()) + " comparisons of " +
                    std::to_string(comparison.DistinctPaths()) + " fields:";
  for (size_t i = 0; i < kVerdicts; ++i) {
    auto verdict = static_cast<FieldVerdict>(i);
    std::string name(verdict == FieldVerdict::kUnexplained ? "unexplained" : VerdictName(verdict));
    out += (i > 0 ? ", " : " ") + std::to_string(comparison.Count(verdict)) + " " + name;
  }
  return out + ".";
}

// What the counts mean: how many values were really compared, and how many only one side has.
std::string Conclusion(const ToolComparison& comparison) {
  auto count = [&](std::initializer_list<FieldVerdict> verdicts) {
    size_t sum = 0;
    for (FieldVerdict verdict : verdicts) sum += comparison.Count(verdict);
    return std::to_string(sum);
  };
  const bool good = comparison.Count(FieldVerdict::kUnexplained) == 0;
  return Wrapped((good ? "● " : "✖ ") + count({FieldVerdict::kEqual, FieldVerdict::kWithin}) +
                     " values agree, " + count({FieldVerdict::kDiffers}) + " differ for a stated reason, " +
                     count({FieldVerdict::kToolSilent, FieldVerdict::kOwnSilent}) +
                     " are known to one side only, for a stated reason, " +
                     count({FieldVerdict::kUnexplained}) + " are UNEXPLAINED.",
                 2);
}

}  // namespace

std::string TextReport(const ReportHead& head, const ToolComparison& comparison) {
  std::string out;
  if (head.simulated) out += "SIMULATED GPUs: gpulens reads no GPU here.\n";
  Notes notes;
  std::string subject;
  for (const ComparedField& field : comparison.fields) {
    if (field.subject != subject) {
      subject = field.subject;
      out += (out.empty() ? "" : "\n") + Printable(subject) + "\n" + FieldCell("FIELD", 1) +
             CellText(head.tool, kValueWidth) + CellText("gpulens", kValueWidth) + "VERDICT\n";
    }
    out += FieldCell(field.path, field.times) + CellText(field.tool, kValueWidth) +
           CellText(field.own, kValueWidth) + std::string(VerdictName(field.verdict)) +
           notes.MarkOf(field.reason) + "\n";
  }
  out += "\n" + notes.Text() + "\n";
  if (!comparison.own_only.empty()) {
    out += Wrapped("Read by gpulens, with no field of " + head.tool + ": " + Joined(comparison.own_only, " "),
                   2) +
           "\n";
  }
  std::string times = head.looks > 1 ? ", run " + std::to_string(head.looks) + " times" : "";
  out += Wrapped(head.tool + " (" + Printable(head.where) + times + "): " + Counts(comparison), 2);
  return out + Conclusion(comparison);
}

std::string JsonReport(const ReportHead& head, const ToolComparison& comparison) {
  static constexpr std::string_view kKeys[] = {"equal",        "within",      "neither",
                                               "differs",      "tool_silent", "gpulens_silent",
                                               "not_compared", "unexplained"};
  static_assert(std::size(kKeys) == kVerdicts);
  return JsonDocumentText("gpulens.compare/1", [&](JsonObject& root) {
    root.Text("tool", head.tool);
    root.Text("from", head.where);
    root.Flag("simulated", head.simulated);
    root.Count("looks", head.looks);
    root.Count("distinct_fields", comparison.DistinctPaths());
    root.Count("comparisons", comparison.fields.size());
    {
      JsonObject counts(root.Key("counts"));
      for (size_t i = 0; i < kVerdicts; ++i)
        counts.Count(kKeys[i], comparison.Count(static_cast<FieldVerdict>(i)));
    }
    auto add_field = [](std::string& out, const ComparedField& field) {
      JsonObject object(out);
      object.Text("subject", field.subject);
      object.Text("field", field.path);
      object.Text("tool", field.tool);
      object.Text("gpulens", field.own);
      object.Text("metric", field.metric);
      object.Text("verdict", kKeys[static_cast<size_t>(field.verdict)]);
      object.Text("reason", field.reason);
    };
    root.List("fields", comparison.fields, add_field, "\n", "\n");
    root.Texts("gpulens_only", comparison.own_only);
  });
}

}  // namespace gpulens::compare
