#include "cli/compare/comparison.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "base/text.h"
#include "cli/common/json_object.h"
#include "cli/common/text_table.h"

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
  std::string safe;
  AppendPrintable(safe, text);
  std::string out = Shortened(safe.empty() ? std::string(kNoValue) : safe, width);
  out.append(width - std::min(width, WidthOf(out)) + 1, ' ');
  return out;
}

std::string FieldCell(std::string_view path, size_t times) {
  std::string safe, count = times > 1 ? " ×" + std::to_string(times) : "";
  AppendPrintable(safe, path);
  std::string out = Tail(safe, kFieldWidth - WidthOf(count)) + count;
  out.append(kFieldWidth - std::min(kFieldWidth, WidthOf(out)) + 1, ' ');
  return out;
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
    auto found = std::find(reasons_.begin(), reasons_.end(), reason);
    if (found == reasons_.end()) found = reasons_.insert(reasons_.end(), reason);
    return " [" + std::to_string(found - reasons_.begin() + 1) + "]";
  }
  std::string Text() const {
    std::string out;
    for (size_t i = 0; i < reasons_.size(); ++i) {
      std::string safe, mark = "[" + std::to_string(i + 1) + "] ";
      AppendPrintable(safe, reasons_[i]);
      out += Wrapped(mark + safe, mark.size());
    }
    return out;
  }

 private:
  std::vector<std::string> reasons_;
};

std::string Counts(const Comparison& comparison) {
  std::string out = std::to_string(comparison.fields.size()) + " comparisons of " +
                    std::to_string(comparison.DistinctPaths()) + " fields:";
  for (size_t i = 0; i < kVerdicts; ++i) {
    auto verdict = static_cast<Verdict>(i);
    std::string name(verdict == Verdict::kUnexplained ? "unexplained" : VerdictName(verdict));
    out += (i > 0 ? ", " : " ") + std::to_string(comparison.Count(verdict)) + " " + name;
  }
  return out + ".";
}

// What the counts mean: how many values were really compared, and how many only one side has.
std::string Conclusion(const Comparison& comparison) {
  auto count = [&](std::initializer_list<Verdict> verdicts) {
    size_t sum = 0;
    for (Verdict verdict : verdicts) sum += comparison.Count(verdict);
    return std::to_string(sum);
  };
  const bool good = comparison.Count(Verdict::kUnexplained) == 0;
  return Wrapped((good ? "● " : "✖ ") + count({Verdict::kEqual, Verdict::kWithin}) + " values agree, " +
                     count({Verdict::kDiffers}) + " differ for a stated reason, " +
                     count({Verdict::kToolSilent, Verdict::kOwnSilent}) +
                     " are known to one side only, for a stated reason, " + count({Verdict::kUnexplained}) +
                     " are UNEXPLAINED.",
                 2);
}

}  // namespace

std::string TextReport(const ReportHead& head, const Comparison& comparison) {
  std::string safe, out;
  AppendPrintable(safe, head.where);
  if (head.simulated) out += "SIMULATED GPUs: gpulens reads no GPU here.\n";
  Notes notes;
  std::string subject;
  for (const ComparedField& field : comparison.fields) {
    if (field.subject != subject) {
      subject = field.subject;
      std::string name;
      AppendPrintable(name, subject);
      out += (out.empty() ? "" : "\n") + name + "\n" + FieldCell("FIELD", 1) +
             CellText(head.tool, kValueWidth) + CellText("gpulens", kValueWidth) + "VERDICT\n";
    }
    out += FieldCell(field.path, field.times) + CellText(field.tool, kValueWidth) +
           CellText(field.own, kValueWidth) + std::string(VerdictName(field.verdict)) +
           notes.MarkOf(field.reason) + "\n";
  }
  out += "\n" + notes.Text() + "\n";
  if (!comparison.own_only.empty()) {
    std::string list = "Read by gpulens, with no field of " + head.tool + ":";
    for (const std::string& metric : comparison.own_only) list += " " + metric;
    out += Wrapped(list, 2) + "\n";
  }
  std::string times = head.looks > 1 ? ", run " + std::to_string(head.looks) + " times" : "";
  out += Wrapped(head.tool + " (" + safe + times + "): " + Counts(comparison), 2);
  return out + Conclusion(comparison);
}

std::string JsonReport(const ReportHead& head, const Comparison& comparison) {
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
        counts.Count(kKeys[i], comparison.Count(static_cast<Verdict>(i)));
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
