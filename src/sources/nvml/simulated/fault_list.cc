#include "sources/nvml/simulated/fault_list.h"

#include <cmath>
#include <optional>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens::nvml {
namespace {

constexpr int64_t kSeenNs = 10'000'000'000;

Status WrongHeal() {
  return {Code::kInvalidArgument, "expected: heal, heal gpu=N (all of one GPU) or heal id=N (see status)"};
}

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kLongestNs = 24 * 3600 * kSecondNs;
constexpr int64_t kUsualResetNs = 2 * kSecondNs;
constexpr size_t kMaxCallName = 64;

bool HappensOnce(FaultMode mode) noexcept {
  return mode == FaultMode::kXid || mode == FaultMode::kCrash || mode == FaultMode::kEccUncorrectable ||
         mode == FaultMode::kEccCorrectable;
}

Status Wrong(std::string_view key, std::string_view value, const std::string& right) {
  std::string shown;
  for (char c : value.substr(0, 32)) shown += c > ' ' && c < 127 ? c : '?';
  return {Code::kInvalidArgument, std::string(key) + "=" + shown + ": expected " + right};
}

bool IsCallName(std::string_view text) noexcept {
  auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return text == "*" || (text.starts_with("nvml") && text.size() <= kMaxCallName &&
                         std::all_of(text.begin(), text.end(), good));
}

// Bits: a number, a hexadecimal one, a negative one, or the name of a value that drivers use for "unknown".
std::optional<uint64_t> ParseBits(std::string_view text) noexcept {
  if (text == "all_ones") return ~uint64_t{0};
  if (text == "int_min") return static_cast<uint64_t>(int64_t{INT32_MIN});
  if (text.starts_with("0x")) return ParseInt<uint64_t>(text.substr(2), 16);
  if (!text.starts_with('-')) return ParseInt<uint64_t>(text);
  std::optional<int64_t> below = ParseInt<int64_t>(text);
  if (!below) return std::nullopt;
  return static_cast<uint64_t>(*below);
}

// Reads one word after the other into a fault. Times are in the script's form, or in a person's.
class LineReader {
 public:
  explicit LineReader(bool script) : script_(script) {}

  Status Read(std::string_view words, LiveFault& out) {
    if (words.size() > kMaxFaultLine) return {Code::kInvalidArgument, "the fault has too many words"};
    std::string_view rest = Trim(words);
    // Which keys are right depends on the mode, which may come anywhere.
    for (std::string_view look = rest; !look.empty(); look = Trim(look)) {
      std::string_view word = TakeUntil(look, ' ');
      if (word.starts_with("mode=")) RETURN_IF_ERROR(ReadMode(word.substr(5), out));
    }
    if (!row_) return {Code::kInvalidArgument, "mode is missing: one of " + ModeNames()};
    for (; !rest.empty(); rest = Trim(rest)) {
      std::string_view value = TakeUntil(rest, ' ');
      std::string_view key = TakeUntil(value, '=');
      if (key == "mode") continue;
      if (std::find(seen_.begin(), seen_.end(), key) != seen_.end())
        return Wrong(key, value, "each key once");
      seen_.push_back(key);
      RETURN_IF_ERROR(ReadWord(key, value, out));
    }
    for (std::string_view key : row_->keys) {
      if (!key.ends_with('!')) continue;
      key.remove_suffix(1);
      if (std::find(seen_.begin(), seen_.end(), key) == seen_.end())
        return {Code::kInvalidArgument,
                "mode=" + std::string(row_->name) + " needs " + std::string(key) + "="};
    }
    return Ok();
  }

  int64_t after_ns() const noexcept { return after_ns_; }
  int64_t length_ns() const noexcept { return length_ns_; }
  bool Saw(std::string_view key) const { return std::find(seen_.begin(), seen_.end(), key) != seen_.end(); }

 private:
  static std::string ModeNames() { return FaultNames(kModes, &ModeRow::name); }

  Status ReadMode(std::string_view value, LiveFault& out) {
    if (row_) return Wrong("mode", value, "each key once");
    row_ = std::find_if(std::begin(kModes), std::end(kModes),
                        [&](const ModeRow& row) { return row.name == value; });
    if (row_ == std::end(kModes)) return Wrong("mode", value, "one of " + ModeNames());
    out.mode = static_cast<FaultMode>(row_ - std::begin(kModes));
    return Ok();
  }

  template <class T>
  static Status ReadNumber(std::string_view key, std::string_view value, T& out, uint64_t low,
                           uint64_t high) {
    std::optional<uint64_t> number = ParseInt<uint64_t>(value);
    if (!number || *number < low || *number > high)
      return Wrong(key, value, std::to_string(low) + " to " + std::to_string(high));
    out = static_cast<T>(*number);
    return Ok();
  }

  // A value of an enumeration by its name in `rows`, which are in its order.
  template <class Rows, class Enum, class Name = std::identity>
  static Status ReadName(std::string_view key, std::string_view value, const Rows& rows, Enum& out,
                         Name name = {}) {
    auto found = std::ranges::find(rows, value, name);
    if (found == std::end(rows)) return Wrong(key, value, "one of " + FaultNames(rows, name));
    out = static_cast<Enum>(found - std::begin(rows));
    return Ok();
  }

  static Status ReadGpu(std::string_view value, LiveFault& out) {
    out.gpu = -1;
    if (value == "all") return Ok();
    std::optional<int> number = ParseInt<int>(value);
    if (!number || *number < 0 || *number >= static_cast<int>(kMaxFakeGpus))
      return Wrong("gpu", value, "0 to " + std::to_string(kMaxFakeGpus - 1) + ", or all");
    out.gpu = *number;
    return Ok();
  }

  Status ReadTime(std::string_view key, std::string_view value, int64_t& out) const {
    ASSIGN_OR_RETURN(out, ParseFaultTime(value));
    return key == "for" && out == 0 ? Wrong(key, value, "more than 0 s") : Ok();
  }

  Status ReadWord(std::string_view key, std::string_view value, LiveFault& out) {
    if (key == "gpu") return ReadGpu(value, out);
    if (script_) {
      if (key == "id") return ReadNumber(key, value, out.id, 1, UINT32_MAX);
      if (key == "from") return ReadNumber(key, value, out.from_ns, 0, INT64_MAX);
      if (key == "to") return ReadNumber(key, value, out.to_ns, 0, INT64_MAX);
    } else {
      if (key == "after") return ReadTime(key, value, after_ns_);
      if (key == "for" && HappensOnce(out.mode))
        return Wrong(key, value, "no length: mode=" + std::string(row_->name) + " happens once");
      if (key == "for") return ReadTime(key, value, length_ns_);
    }
    if (!HasKey(*row_, key)) return Wrong(key, value, "no such key with mode=" + std::string(row_->name));
    return ReadOwn(key, value, out);
  }

  static Status ReadOwn(std::string_view key, std::string_view value, LiveFault& out) {
    if (key == "call") {
      out.call = value;
      return IsCallName(value) ? Ok() : Wrong(key, value, "the name of a function, nvmlDevice…, or *");
    }
    if (key == "code") return ReadNumber(key, value, out.code, 1, out.mode == FaultMode::kXid ? 4095 : 999);
    if (key == "amount") return ReadNumber(key, value, out.amount, 1, 1'000'000'000);
    if (key == "percent") return ReadNumber(key, value, out.percent, 1, 100);
    if (key == "seed") return ReadNumber(key, value, out.seed, 0, UINT64_MAX);
    if (key == "index") return ReadNumber(key, value, out.index, 0, kMaxFakeGpus - 1);
    if (key == "delay") {
      ASSIGN_OR_RETURN(out.delay_ns, ParseFaultTime(value));
      return out.delay_ns > 0 && out.delay_ns <= 60 * kSecondNs ? Ok() : Wrong(key, value, "up to 60 s");
    }
    if (key == "value") {
      std::optional<uint64_t> bits = ParseBits(value);
      if (!bits) return Wrong(key, value, "a whole number, 0x…, all_ones or int_min");
      out.value = *bits;
      return Ok();
    }
    if (key == "reading") return ReadName(key, value, kReadings, out.reading);
    if (key == "how") return ReadName(key, value, kEnds, out.how);
    return ReadName(key, value, kCounters, out.counter, &CounterRow::name);
  }

  const bool script_;
  const ModeRow* row_ = nullptr;
  std::vector<std::string_view> seen_;
  int64_t after_ns_ = 0, length_ns_ = 0;
};

}  // namespace

Result<std::string> FaultList::Fail(std::string_view words, int64_t now_ns, size_t gpus) {
  ASSIGN_OR_RETURN(LiveFault fault, ParseFaultOrder(words, now_ns));
  if (gpus > 0 && fault.gpu >= static_cast<int>(gpus))
    return Status{Code::kInvalidArgument, "gpu=" + std::to_string(fault.gpu) +
                                              ": the simulated machine has GPUs 0 to " +
                                              std::to_string(gpus - 1)};
  Prune(now_ns);
  if (faults_.size() == kMaxLiveFaults)
    return Status{Code::kExhausted,
                  std::to_string(kMaxLiveFaults) +
                      " faults are the maximum: heal some; counts that stay end with the agent"};
  fault.id = next_id_++;
  faults_.push_back(fault);
  return DescribeFault(fault, now_ns);
}

Result<std::string> FaultList::Heal(std::string_view words, int64_t now_ns) {
  std::string_view value = Trim(words);
  std::string_view key = TakeUntil(value, '=');
  std::optional<uint32_t> number = ParseInt<uint32_t>(value);
  if (!key.empty() && (!number || (key != "gpu" && key != "id"))) return WrongHeal();
  size_t healed = 0;
  for (LiveFault& fault : faults_) {
    bool meant = key.empty() || (key == "id" ? fault.id == *number : fault.gpu == static_cast<int>(*number));
    if (!meant || now_ns >= fault.to_ns) continue;
    // One that has not begun never was.
    if (now_ns < fault.from_ns) fault.from_ns = now_ns;
    fault.to_ns = now_ns;
    if (fault.from_ns == now_ns) fault.id = 0;
    ++healed;
  }
  std::erase_if(faults_, [](const LiveFault& fault) { return fault.id == 0; });
  Prune(now_ns);
  if (healed == 0 && !key.empty())
    return Status{Code::kInvalidArgument, "no such fault; see: gpulens fake nvml status"};
  return std::to_string(healed) + (healed == 1 ? " fault was healed" : " faults were healed");
}

std::string FaultList::Describe(int64_t now_ns) const {
  std::string out;
  for (const LiveFault& fault : faults_) {
    if (now_ns >= fault.to_ns && !FaultLeavesCount(fault)) continue;
    out += (out.empty() ? "" : ";") + DescribeFault(fault, now_ns);
  }
  return out.empty() ? "no faults" : out;
}

void FaultList::Prune(int64_t now_ns) {
  std::erase_if(faults_, [&](const LiveFault& fault) {
    int64_t over_ns = fault.mode == FaultMode::kXid ? fault.from_ns : fault.to_ns;
    return !FaultLeavesCount(fault) && over_ns < now_ns - kSeenNs;
  });
}

Result<int64_t> ParseFaultTime(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1},  {"us", 1e3}, {"ms", 1e6},
                                                            {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
  double unit = 1e9;
  std::string_view digits = text;
  for (auto [suffix, size] : kUnits) {
    if (!digits.ends_with(suffix)) continue;
    digits.remove_suffix(suffix.size());
    unit = size;
    break;
  }
  std::optional<double> number = ParseDouble(digits);
  // Not "inf", "1e3" or " 1": only what people write.
  bool plain =
      std::all_of(digits.begin(), digits.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  if (!plain || !number || *number * unit > static_cast<double>(kLongestNs))
    return Wrong("a time", text, "seconds or 500ms, 10s, 5m, up to 24h");
  return static_cast<int64_t>(std::llround(*number * unit));
}

Result<LiveFault> ParseFaultOrder(std::string_view words, int64_t now_ns) {
  LiveFault out;
  LineReader reader(false);
  RETURN_IF_ERROR(reader.Read(words, out));
  if (!reader.Saw("gpu") && out.call == "*")
    return Status{Code::kInvalidArgument, "gpu is missing: gpu=3, or gpu=all"};
  bool numbered = out.mode == FaultMode::kRenumber || out.mode == FaultMode::kVanish;
  if (numbered && out.gpu < 0) return Wrong("gpu", "all", "one GPU with this mode");
  out.from_ns = now_ns + reader.after_ns();
  if (reader.length_ns() > 0) out.to_ns = out.from_ns + reader.length_ns();
  else if (out.mode == FaultMode::kReset) out.to_ns = out.from_ns + kUsualResetNs;
  return out;
}

Result<std::vector<LiveFault>> ParseFaultScript(std::string_view text) {
  if (text.size() > kMaxFaultScript) return Status{Code::kExhausted, "the script of faults is too long"};
  std::string_view rest = text;
  if (TakeUntil(rest, '\n') != kFaultHeader)
    return Status{Code::kInvalidArgument,
                  "the script of faults must begin with: " + std::string(kFaultHeader)};
  std::vector<LiveFault> out;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    if (line.empty()) continue;
    if (out.size() == kMaxLiveFaults) return Status{Code::kExhausted, "the script has too many faults"};
    LineReader reader(true);
    RETURN_IF_ERROR(reader.Read(line, out.emplace_back()));
    if (out.back().id == 0) return Status{Code::kInvalidArgument, "a fault of the script has no id"};
  }
  return out;
}

}  // namespace gpulens::nvml
