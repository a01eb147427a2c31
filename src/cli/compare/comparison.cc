#include "cli/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/parse.h"

namespace gpulens::compare {
namespace {

constexpr std::string_view kRecorded = "the file was recorded at another time, and the value varies";
constexpr std::string_view kRounding = "rounding of the tool";
constexpr std::string_view kMoved = "it changed between the two readings of gpulens";
constexpr std::string_view kMovesFast = "it varies as much between two readings of gpulens";

// Letters and digits alone, in lower case: "Pass-Through" and "passthrough" are one word.
std::string Bare(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  }
  return out;
}

// "00000000:1A:00.0" and "0000:1a:00.0" are one address.
std::string BareBusId(std::string_view text) {
  std::string bare = Bare(text);
  return bare.substr(std::min(bare.find_first_not_of('0'), bare.size()));
}

std::optional<double> WordNumber(std::string_view text) {
  constexpr std::string_view kYes[] = {"enabled", "active", "yes", "true", "supported", "on"};
  constexpr std::string_view kNo[] = {"disabled", "notactive", "no", "false", "none", "off"};
  std::string word = Bare(text);
  if (std::find(std::begin(kYes), std::end(kYes), word) != std::end(kYes)) return 1;
  if (std::find(std::begin(kNo), std::end(kNo), word) != std::end(kNo)) return 0;
  return std::nullopt;
}

bool SaysAllIsWell(std::string_view text) {
  constexpr std::string_view kWell[] = {"success", "none",    "no",        "false",
                                        "full",    "healthy", "notactive", "disabled"};
  return std::find(std::begin(kWell), std::end(kWell), Bare(text)) != std::end(kWell);
}

// The tool's word for a state in gpulens' words.
std::string StateWord(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"gpureset", "reset"}, {"nodereboot", "reboot"}, {"drainreset", "drainandreset"}};
  std::string word = Bare(text);
  for (auto [theirs, ours] : kOthers) {
    if (word == theirs) return std::string(ours);
  }
  return word;
}

std::string NumberText(double value, std::string_view unit) {
  char text[48];
  std::snprintf(text, sizeof text, "%.7g", value);
  std::string out = text;
  if (unit == "x" || unit.empty()) return out + std::string(unit);
  return out + " " + std::string(unit);
}

// One series as it was before and after the run of the tool.
struct OwnPair {
  const OwnValue* before = nullptr;
  const OwnValue* after = nullptr;
  const OwnValue* any() const noexcept {
    if (after && after->present) return after;
    if (before && before->present) return before;
    return after ? after : before;
  }
  bool present() const noexcept { return (before && before->present) || (after && after->present); }
};

const OwnValue* FindIn(const OwnReadings& own, std::string_view subject, const FieldRow& row) {
  auto found = own.find(subject);
  if (found == own.end()) return nullptr;
  const bool state = row.how == How::kState;
  const bool numbered = row.how == How::kNumber || row.how == How::kFlag || row.how == How::kFault ||
                        row.how == How::kGeneration;
  const OwnValue* absent = nullptr;
  for (const OwnValue& value : found->second) {
    if (value.metric != row.metric) continue;
    if (numbered && !value.Has(row.attributes)) continue;
    if (state && (!value.present || value.value != 1)) continue;
    if (!numbered && !state && value.Text(row.attributes).empty()) continue;
    if (value.present) return &value;
    absent = &value;
  }
  return absent;
}

// Of a MIG device whose memory is that of its whole GPU instance, the first compute instance has it.
const OwnValue* FindOwn(const OwnReadings& own, const std::string& subject, const FieldRow& row) {
  if (const OwnValue* found = FindIn(own, subject, row)) return found;
  if (!subject.starts_with("mig:")) return nullptr;
  std::string first = subject.substr(0, subject.rfind('/') + 1) + "0";
  return FindIn(own, first, row);
}

class FieldValidator {
 public:
  FieldValidator(const CompareInput& input, const ToolField& field) : input_(input), field_(field) {
    out_.subject = field.subject;
    out_.path = field.path;
    out_.tool = field.text;
  }

  ComparedField Run() {
    std::span<const FieldRow> rows = RowsFor(input_.rows, field_.path);
    if (rows.empty()) return Say(Verdict::kUnexplained, "gpulens does not know this field");
    row_ = &rows.front();
    if (row_->how == How::kNone) return Say(Verdict::kNotCompared, row_->reason);
    const bool tool_knows = !SaysNoValue(field_.text);
    // The further rows are readings that the tool shows instead of a missing one, as NVML does with power.
    if (!tool_knows) rows = rows.first(1);
    for (const FieldRow& row : rows) {
      pair_ = {FindOwn(input_.before, field_.subject, row), FindOwn(input_.after, field_.subject, row)};
      row_ = &row;
      if (pair_.present()) break;
    }
    out_.metric = std::string(row_->metric);
    if (!tool_knows && !pair_.present()) return Say(Verdict::kNeither, {});
    if (!pair_.present()) return OwnIsSilent();
    ShowOwn();
    // "Not Supported" may be a state.
    const bool same_state = row_->how == How::kState && StateWord(field_.text) == Bare(OwnText());
    if (!tool_knows && !same_state) return ToolIsSilent();
    switch (row_->how) {
      case How::kText: return CheckText(Bare(field_.text), Bare(OwnText()));
      case How::kBusId: return CheckText(BareBusId(field_.text), BareBusId(OwnText()));
      case How::kState: return CheckText(StateWord(field_.text), Bare(OwnText()));
      default: return ValidateNumber();
    }
  }

 private:
  ComparedField Say(Verdict verdict, std::string_view reason) {
    out_.verdict = verdict;
    out_.reason = std::string(reason);
    return std::move(out_);
  }
  std::string OwnText() const { return std::string(pair_.any()->Text(row_->attributes)); }
  bool Moves() const {
    return !row_->tolerance.why.empty() || !row_->reason.empty() || IsMonotonic(pair_.any()->kind);
  }

  ComparedField ToolIsSilent() {
    if (SaysFailure(field_.text))
      return Say(Verdict::kUnexplained, "the tool reports a failure, gpulens has a value");
    if (!row_->tool_silent.empty()) return Say(Verdict::kToolSilent, row_->tool_silent);
    std::string_view reason = ReasonOfNoValue(field_.text);
    if (!reason.empty()) return Say(Verdict::kToolSilent, reason);
    return Say(Verdict::kUnexplained, "the tool has no value, gpulens has one");
  }

  ComparedField OwnIsSilent() {
    if (!row_->silent.empty()) return Say(Verdict::kOwnSilent, row_->silent);
    const OwnValue* own = pair_.any();
    if (own && own->absence != "not_read") {
      return Say(Verdict::kOwnSilent, "gpulens rejects its reading: " + own->absence);
    }
    if (input_.recorded && field_.subject.starts_with("process:"))
      return Say(Verdict::kDiffers, "the file was recorded earlier, and the process has ended");
    return Say(Verdict::kUnexplained, "gpulens has no reading of it");
  }

  std::optional<ToolNumber> Number() const {
    auto of = [](std::optional<double> value) -> std::optional<ToolNumber> {
      if (!value) return std::nullopt;
      ToolNumber out;
      out.value = *value;
      return out;
    };
    if (row_->how == How::kFlag) return of(WordNumber(field_.text));
    if (row_->how == How::kFault) return of(SaysAllIsWell(field_.text) ? 0.0 : 1.0);
    if (row_->how == How::kGeneration) return of(GenerationOf(field_.text));
    std::optional<ToolNumber> number = ParseToolNumber(field_.text);
    if (number && number->unit.empty()) {
      number->value *= row_->scale;
      number->scale *= row_->scale;
      number->last_place *= row_->scale;
    }
    return number;
  }

  double OwnNumber(const OwnValue& own) const {
    return row_->how == How::kFault ? static_cast<double>(own.value != 0) : own.value;
  }

  void ShowOwn() {
    if (row_->how == How::kText || row_->how == How::kBusId || row_->how == How::kState) {
      out_.own = OwnText();
      return;
    }
    std::optional<ToolNumber> number = Number();
    double value = OwnNumber(*pair_.any());
    if (row_->how == How::kNumber && number) out_.own = NumberText(value / number->scale, number->unit);
    else out_.own = NumberText(value, {});
  }

  ComparedField CheckText(const std::string& theirs, const std::string& ours) {
    if (theirs == ours) return Say(Verdict::kEqual, {});
    // "Ada Lovelace" is "ada" in our list of architectures.
    if (field_.path == "product_architecture" && !ours.empty() && theirs.starts_with(ours)) {
      return Say(Verdict::kWithin, "gpulens uses a shorter name");
    }
    if (!row_->reason.empty()) return Say(Verdict::kDiffers, row_->reason);
    if (input_.recorded && row_->how == How::kState) return Say(Verdict::kDiffers, kRecorded);
    return Say(Verdict::kUnexplained, "the texts differ");
  }

  ComparedField ValidateNumber() {
    std::optional<ToolNumber> number = Number();
    if (!number) return Say(Verdict::kUnexplained, "the tool's text cannot be parsed");
    const OwnValue* first = pair_.before && pair_.before->present ? pair_.before : pair_.any();
    const double a = OwnNumber(*first), b = OwnNumber(*pair_.any()), theirs = number->value;
    const double low = std::min(a, b), high = std::max(a, b);
    const double nothing = 1e-9 * std::max({1.0, std::fabs(theirs), std::fabs(high)});
    const double off = std::max({low - theirs, theirs - high, 0.0});
    if (std::fabs(theirs - a) <= nothing || std::fabs(theirs - b) <= nothing) return Say(Verdict::kEqual, {});
    if (off <= nothing) return Say(Verdict::kWithin, kMoved);
    if (off <= number->last_place + nothing)
      return Say(Verdict::kWithin, high - low > nothing ? kMoved : kRounding);
    const Tolerance& tolerance = row_->tolerance;
    const double most = std::max({std::fabs(theirs), std::fabs(low), std::fabs(high)});
    if (off <= std::max(tolerance.slack, tolerance.share * most) + number->last_place) {
      return Say(Verdict::kWithin, tolerance.why);
    }
    if (!tolerance.why.empty() && !tolerance.IsStep() && off <= high - low)
      return Say(Verdict::kWithin, kMovesFast);
    if (!row_->reason.empty()) return Say(Verdict::kDiffers, row_->reason);
    if (input_.recorded && Moves()) return Say(Verdict::kDiffers, kRecorded);
    return Say(Verdict::kUnexplained, "the numbers differ");
  }

  const CompareInput& input_;
  const ToolField& field_;
  const FieldRow* row_ = nullptr;
  OwnPair pair_;
  ComparedField out_;
};

// GPUs that gpulens reads and the tool did not print.
void AddMissingGpus(const CompareInput& input, Comparison& out) {
  std::set<std::string_view> told;
  for (const ToolField& field : input.tool) told.insert(field.subject);
  for (const auto& [subject, values] : input.after) {
    if (!subject.starts_with("gpu:") || told.contains(subject)) continue;
    out.fields.push_back({.subject = subject,
                          .path = "(the whole GPU)",
                          .tool = {},
                          .own = std::to_string(values.size()) + " series",
                          .metric = {},
                          .verdict = Verdict::kUnexplained,
                          .reason = "the tool does not print this GPU"});
  }
}

std::vector<std::string> OwnOnly(const CompareInput& input) {
  std::set<std::string_view> compared;
  for (const FieldRow& row : input.rows) compared.insert(row.metric);
  std::set<std::string> out;
  for (const auto& [subject, values] : input.after) {
    for (const OwnValue& value : values) {
      if (value.present && !compared.contains(value.metric)) out.insert(value.metric);
    }
  }
  return {out.begin(), out.end()};
}

}  // namespace

std::string_view VerdictName(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kEqual: return "equal";
    case Verdict::kWithin: return "within";
    case Verdict::kNeither: return "neither";
    case Verdict::kDiffers: return "differs";
    case Verdict::kToolSilent: return "tool silent";
    case Verdict::kOwnSilent: return "not exported";
    case Verdict::kNotCompared: return "no reading";
    case Verdict::kUnexplained: break;
  }
  return "UNEXPLAINED";
}

size_t Comparison::Count(Verdict verdict) const noexcept {
  return static_cast<size_t>(std::count_if(fields.begin(), fields.end(),
                                           [&](const ComparedField& f) { return f.verdict == verdict; }));
}

size_t Comparison::DistinctPaths() const {
  std::set<std::string_view> paths;
  for (const ComparedField& field : fields) paths.insert(field.path);
  return paths.size();
}

Comparison Compare(const CompareInput& input) {
  Comparison out;
  std::map<std::pair<std::string, std::string>, size_t> once;  // those that are not compared
  for (const ToolField& field : input.tool) {
    auto seen = once.find({field.subject, field.path});
    if (seen != once.end()) {
      ++out.fields[seen->second].times;
      continue;
    }
    out.fields.push_back(FieldValidator(input, field).Run());
    if (out.fields.back().verdict == Verdict::kNotCompared)
      once.emplace(std::pair(field.subject, field.path), out.fields.size() - 1);
  }
  AddMissingGpus(input, out);
  out.own_only = OwnOnly(input);
  return out;
}

void MergeLook(Comparison& into, const Comparison& look) {
  using Key = std::tuple<std::string_view, std::string_view, size_t>;
  auto keyed = [](const Comparison& of) {
    std::map<Key, size_t> out;
    std::map<std::pair<std::string_view, std::string_view>, size_t> counts;
    for (size_t i = 0; i < of.fields.size(); ++i) {
      const ComparedField& field = of.fields[i];
      out.emplace(Key(field.subject, field.path, counts[{field.subject, field.path}]++), i);
    }
    return out;
  };
  const std::map<Key, size_t> ours = keyed(into), theirs = keyed(look);
  for (const auto& [key, i] : ours) {
    ComparedField& field = into.fields[i];
    if (field.verdict != Verdict::kUnexplained) continue;
    auto again = theirs.find(key);
    if (again == theirs.end()) {
      // A process or a MIG device may end; a GPU or one of its fields may not.
      if (!field.subject.starts_with("process:") && !field.subject.starts_with("mig:")) continue;
      field.verdict = Verdict::kDiffers;
      field.reason = "it had ended at the next comparison";
    } else if (look.fields[again->second].verdict != Verdict::kUnexplained) {
      ComparedField better = look.fields[again->second];
      field = std::move(better);
    }
  }
}

}  // namespace gpulens::compare
