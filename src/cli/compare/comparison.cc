#include "cli/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/parse.h"
#include "cli/common/output.h"

namespace gpulens::compare {

namespace {

// The subject as in ToolField; empty for entities that no tool prints.
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

struct ToolUnit {
  std::string_view name;
  double scale;
  bool rounded;  // the tool converts from a finer unit
};
constexpr ToolUnit kUnits[] = {
    {"", 1, false},        {"%", 0.01, true},     {"W", 1, true},         {"mW", 1e-3, true},
    {"C", 1, false},       {"MHz", 1, false},     {"MiB", 1 << 20, true}, {"KiB", 1 << 10, true},
    {"MB", 1 << 20, true}, {"GB", 1 << 30, true}, {"GiB", 1 << 30, true}, {"KB/s", 1024, true},
    {"us", 1e-6, true},    {"ms", 1e-3, true},    {"x", 1, false},        {"bank(s)", 1, false},
    {"mV", 1e-3, true},    {"V", 1, true},        {"J", 1, true},         {"RPM", 1, false},
    {"GT/s", 1, false},    {"B", 1, false},
};

// The text without the brackets that some versions of nvidia-smi print around it.
std::string_view WithoutBrackets(std::string_view text) noexcept {
  text = Trim(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return text;
  return text.substr(1, text.size() - 2);
}

template <size_t N>
bool IsOneOf(std::string_view text, const std::string_view (&words)[N]) noexcept {
  return std::ranges::count(words, WithoutBrackets(text)) > 0;
}

constexpr std::string_view kNoValueWords[] = {"",          "N/A",          "Not Supported", "Not Available",
                                              "Not Found", "Uninitialized"};
constexpr std::string_view kFailureWords[] = {"ERR!", "Unknown Error", "GPU is lost",
                                              "GPU access blocked by the operating system",
                                              "GPU requires reset"};

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
  const std::string word = Bare(text);
  if (std::ranges::count(kYes, word) > 0) return 1;
  if (std::ranges::count(kNo, word) > 0) return 0;
  return std::nullopt;
}

bool IsFaultlessText(std::string_view text) {
  constexpr std::string_view kWell[] = {"success", "none",    "no",        "false",
                                        "full",    "healthy", "notactive", "disabled"};
  return std::ranges::count(kWell, Bare(text)) > 0;
}

// Translates the tool's word for a state.
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
  const std::string out = Printed("%.7g", value);
  if (unit == "x" || unit.empty()) return out + std::string(unit);
  return out + " " + std::string(unit);
}

// A series before and after the run of the tool.
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
  const bool state = row.how == FieldComparison::kState;
  const bool numbered = row.how == FieldComparison::kNumber || row.how == FieldComparison::kFlag ||
                        row.how == FieldComparison::kFault || row.how == FieldComparison::kGeneration;
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

// The memory of a GPU instance belongs to its first compute instance.
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
    if (rows.empty()) return Conclude(FieldVerdict::kUnexplained, "gpulens does not know this field");
    row_ = &rows.front();
    if (row_->how == FieldComparison::kNone) return Conclude(FieldVerdict::kNotCompared, row_->reason);
    const bool tool_knows = !IsNoValueText(field_.text);
    // Further rows are readings that the tool shows instead of a missing one, as NVML does with power.
    if (!tool_knows) rows = rows.first(1);
    for (const FieldRow& row : rows) {
      pair_ = {FindOwn(input_.before, field_.subject, row), FindOwn(input_.after, field_.subject, row)};
      row_ = &row;
      if (pair_.present()) break;
    }
    out_.metric = std::string(row_->metric);
    if (!tool_knows && !pair_.present()) return Conclude(FieldVerdict::kNeither, {});
    if (!pair_.present()) return OwnIsSilent();
    ShowOwn();
    // "Not Supported" may be a state.
    const bool same_state = row_->how == FieldComparison::kState && StateWord(field_.text) == Bare(OwnText());
    if (!tool_knows && !same_state) return ToolIsSilent();
    switch (row_->how) {
      case FieldComparison::kText: return CheckText(Bare(field_.text), Bare(OwnText()));
      case FieldComparison::kBusId: return CheckText(BareBusId(field_.text), BareBusId(OwnText()));
      case FieldComparison::kState: return CheckText(StateWord(field_.text), Bare(OwnText()));
      default: return ValidateNumber();
    }
  }

 private:
  ComparedField Conclude(FieldVerdict verdict, std::string_view reason) {
    out_.verdict = verdict;
    out_.reason = std::string(reason);
    return std::move(out_);
  }
  std::string OwnText() const { return std::string(pair_.any()->Text(row_->attributes)); }
  bool Moves() const {
    return !row_->tolerance.why.empty() || !row_->reason.empty() || IsMonotonic(pair_.any()->kind);
  }

  ComparedField ToolIsSilent() {
    if (IsFailureText(field_.text))
      return Conclude(FieldVerdict::kUnexplained, "the tool reports a failure, gpulens has a value");
    if (!row_->tool_silent.empty()) return Conclude(FieldVerdict::kToolSilent, row_->tool_silent);
    std::string_view reason = ReasonOfNoValue(field_.text);
    if (!reason.empty()) return Conclude(FieldVerdict::kToolSilent, reason);
    return Conclude(FieldVerdict::kUnexplained, "the tool has no value, gpulens has one");
  }

  ComparedField OwnIsSilent() {
    if (!row_->silent.empty()) return Conclude(FieldVerdict::kOwnSilent, row_->silent);
    const OwnValue* own = pair_.any();
    if (own && own->absence != "not_read") {
      return Conclude(FieldVerdict::kOwnSilent, "gpulens rejects its reading: " + own->absence);
    }
    if (input_.recorded && field_.subject.starts_with("process:"))
      return Conclude(FieldVerdict::kDiffers, "the file was recorded earlier, and the process has ended");
    return Conclude(FieldVerdict::kUnexplained, "gpulens has no reading of it");
  }

  std::optional<ToolNumber> Number() const {
    auto of = [](std::optional<double> value) {
      return value ? std::optional(ToolNumber{.value = *value, .unit = {}}) : std::nullopt;
    };
    if (row_->how == FieldComparison::kFlag) return of(WordNumber(field_.text));
    if (row_->how == FieldComparison::kFault) return of(IsFaultlessText(field_.text) ? 0.0 : 1.0);
    if (row_->how == FieldComparison::kGeneration) return of(GenerationOf(field_.text));
    std::optional<ToolNumber> number = ParseToolNumber(field_.text);
    if (number && number->unit.empty()) {
      number->value *= row_->scale;
      number->scale *= row_->scale;
      number->last_place *= row_->scale;
    }
    return number;
  }

  double OwnNumber(const OwnValue& own) const {
    return row_->how == FieldComparison::kFault ? static_cast<double>(own.value != 0) : own.value;
  }

  void ShowOwn() {
    if (row_->how == FieldComparison::kText || row_->how == FieldComparison::kBusId ||
        row_->how == FieldComparison::kState) {
      out_.own = OwnText();
      return;
    }
    std::optional<ToolNumber> number = Number();
    double value = OwnNumber(*pair_.any());
    if (row_->how == FieldComparison::kNumber && number)
      out_.own = NumberText(value / number->scale, number->unit);
    else out_.own = NumberText(value, {});
  }

  ComparedField CheckText(const std::string& theirs, const std::string& ours) {
    if (theirs == ours) return Conclude(FieldVerdict::kEqual, {});
    // "Ada Lovelace" is "ada" in our list of architectures.
    if (field_.path == "product_architecture" && !ours.empty() && theirs.starts_with(ours)) {
      return Conclude(FieldVerdict::kWithin, "gpulens uses a shorter name");
    }
    if (!row_->reason.empty()) return Conclude(FieldVerdict::kDiffers, row_->reason);
    if (input_.recorded && row_->how == FieldComparison::kState)
      return Conclude(FieldVerdict::kDiffers, kRecorded);
    return Conclude(FieldVerdict::kUnexplained, "the texts differ");
  }

  ComparedField ValidateNumber() {
    std::optional<ToolNumber> number = Number();
    if (!number) return Conclude(FieldVerdict::kUnexplained, "the tool's text cannot be parsed");
    const OwnValue* first = pair_.before && pair_.before->present ? pair_.before : pair_.any();
    const double a = OwnNumber(*first), b = OwnNumber(*pair_.any()), theirs = number->value;
    const double low = std::min(a, b), high = std::max(a, b);
    const double nothing = 1e-9 * std::max({1.0, std::fabs(theirs), std::fabs(high)});
    const double off = std::max({low - theirs, theirs - high, 0.0});
    if (std::fabs(theirs - a) <= nothing || std::fabs(theirs - b) <= nothing)
      return Conclude(FieldVerdict::kEqual, {});
    if (off <= nothing) return Conclude(FieldVerdict::kWithin, kMoved);
    if (off <= number->last_place + nothing)
      return Conclude(FieldVerdict::kWithin, high - low > nothing ? kMoved : kRounding);
    const FieldTolerance& tolerance = row_->tolerance;
    const double most = std::max({std::fabs(theirs), std::fabs(low), std::fabs(high)});
    if (off <= std::max(tolerance.slack, tolerance.share * most) + number->last_place) {
      return Conclude(FieldVerdict::kWithin, tolerance.why);
    }
    if (!tolerance.why.empty() && !tolerance.IsStep() && off <= high - low)
      return Conclude(FieldVerdict::kWithin, kMovesFast);
    if (!row_->reason.empty()) return Conclude(FieldVerdict::kDiffers, row_->reason);
    if (input_.recorded && Moves()) return Conclude(FieldVerdict::kDiffers, kRecorded);
    return Conclude(FieldVerdict::kUnexplained, "the numbers differ");
  }

  const CompareInput& input_;
  const ToolField& field_;
  const FieldRow* row_ = nullptr;
  OwnPair pair_;
  ComparedField out_;
};

// GPUs that gpulens reads and the tool did not print.
void AddMissingGpus(const CompareInput& input, ToolComparison& out) {
  std::set<std::string_view> printed;
  for (const ToolField& field : input.tool) printed.insert(field.subject);
  for (const auto& [subject, values] : input.after) {
    if (!subject.starts_with("gpu:") || printed.contains(subject)) continue;
    out.fields.push_back({.subject = subject,
                          .path = "(the whole GPU)",
                          .tool = {},
                          .own = std::to_string(values.size()) + " series",
                          .metric = {},
                          .verdict = FieldVerdict::kUnexplained,
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

std::optional<ToolNumber> ParseToolNumber(std::string_view text) {
  text = Trim(text);
  // A performance state.
  if (text.size() > 1 && text.front() == 'P' && text.find_first_not_of("0123456789", 1) == text.npos) {
    text.remove_prefix(1);
  }
  size_t end = std::min(text.find_first_not_of("-0123456789."), text.size());
  std::string_view digits = text.substr(0, end), unit = Trim(text.substr(end));
  std::optional<double> value = ParseDouble(digits);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  size_t point = digits.find('.');
  int decimals = point == digits.npos ? 0 : static_cast<int>(digits.size() - point - 1);
  for (const ToolUnit& known : kUnits) {
    if (known.name != unit) continue;
    double last = known.rounded || decimals > 0 ? known.scale * std::pow(10, -decimals) : 0;
    return ToolNumber{*value * known.scale, known.scale, last, unit};
  }
  return std::nullopt;
}

std::optional<double> GenerationOf(std::string_view text) {
  constexpr double kSpeeds[] = {2.5, 5, 8, 16, 32, 64};
  std::optional<ToolNumber> number = ParseToolNumber(text);
  if (!number) return std::nullopt;
  for (size_t i = 0; i < std::size(kSpeeds); ++i) {
    if (number->value == kSpeeds[i]) return static_cast<double>(i + 1);
  }
  return std::nullopt;
}

bool IsFailureText(std::string_view text) noexcept { return IsOneOf(text, kFailureWords); }

std::string_view ReasonOfNoValue(std::string_view text) noexcept {
  if (WithoutBrackets(text) == "Insufficient Permissions") return "the tool has no permission to read it";
  if (WithoutBrackets(text) == "Requested functionality has been deprecated")
    return "the tool no longer reads it";
  return {};
}

bool IsNoValueText(std::string_view text) noexcept {
  return IsOneOf(text, kNoValueWords) || IsFailureText(text) || !ReasonOfNoValue(text).empty();
}

std::string_view VerdictName(FieldVerdict verdict) noexcept {
  constexpr std::string_view kNames[kVerdicts] = {"equal",       "within",       "neither",    "differs",
                                                  "tool silent", "not exported", "no reading", "UNEXPLAINED"};
  return kNames[static_cast<size_t>(verdict)];
}

size_t ToolComparison::Count(FieldVerdict verdict) const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(fields, [&](const ComparedField& f) { return f.verdict == verdict; }));
}

size_t ToolComparison::DistinctPaths() const {
  std::set<std::string_view> paths;
  for (const ComparedField& field : fields) paths.insert(field.path);
  return paths.size();
}

ToolComparison Compare(const CompareInput& input) {
  ToolComparison out;
  std::map<std::pair<std::string, std::string>, size_t> once;  // those that are not compared
  for (const ToolField& field : input.tool) {
    auto seen = once.find({field.subject, field.path});
    if (seen != once.end()) {
      ++out.fields[seen->second].times;
      continue;
    }
    out.fields.push_back(FieldValidator(input, field).Run());
    if (out.fields.back().verdict == FieldVerdict::kNotCompared)
      once.emplace(std::pair(field.subject, field.path), out.fields.size() - 1);
  }
  AddMissingGpus(input, out);
  out.own_only = OwnOnly(input);
  return out;
}

void MergeLook(ToolComparison& into, const ToolComparison& look) {
  using Key = std::tuple<std::string_view, std::string_view, size_t>;
  auto keyed = [](const ToolComparison& of) {
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
    if (field.verdict != FieldVerdict::kUnexplained) continue;
    auto again = theirs.find(key);
    if (again == theirs.end()) {
      // A process or a MIG device may end; a GPU or one of its fields may not.
      if (!field.subject.starts_with("process:") && !field.subject.starts_with("mig:")) continue;
      field.verdict = FieldVerdict::kDiffers;
      field.reason = "it had ended at the next comparison";
    } else if (look.fields[again->second].verdict != FieldVerdict::kUnexplained) {
      ComparedField better = look.fields[again->second];
      field = std::move(better);
    }
  }
}

}  // namespace gpulens::compare
