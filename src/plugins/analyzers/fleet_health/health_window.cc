#include "plugins/analyzers/fleet_health/health_window.h"

#include <algorithm>
#include <charconv>

#include "base/parse.h"

namespace gpulens {
namespace {

constexpr int64_t kSpacings = 60;

}  // namespace

void GrowingCount::Read(double value) noexcept {
  // After a fall the source counts from 0 again.
  if (last) grown += value >= *last ? value - *last : value;
  last = value;
}

void RecentGrowth::Read(int64_t now_ns, double value) noexcept {
  int64_t step = now_ns / kStepNs;
  // Steps without a reading have no growth.
  for (int64_t left = std::min<int64_t>(step - step_, kSteps); left > 0; --left)
    steps_[static_cast<size_t>(step - left + 1) % kSteps] = 0;
  step_ = step;
  double before = count_.grown;
  count_.Read(value);
  steps_[static_cast<size_t>(step) % kSteps] += count_.grown - before;
}

double RecentGrowth::grown() const noexcept {
  double sum = 0;
  for (double step : steps_) sum += step;
  return sum;
}

void HealthWindow::Push(const HealthMoment& moment) noexcept {
  moments_[(first_ + size_) % kMoments] = moment;
  if (size_ < kMoments) ++size_;
  else first_ = (first_ + 1) % kMoments;
}

void HealthWindow::Observe(int64_t now_ns, const Reading& reading) noexcept {
  now_ = {};
  now_.at_ns = now_ns;
  if (reading.temperature) now_.temperature = static_cast<float>(*reading.temperature);
  if (reading.corrected) {
    corrected_.Read(*reading.corrected);
    now_.corrected = corrected_.grown;
  }
  if (reading.xids) {
    xids_.Read(*reading.xids);
    now_.xids = xids_.grown;
  }
  int64_t spacing = length_.count() / kSpacings;
  if (size_ == 0 || now_ns - (*this)[size_ - 1].at_ns >= spacing) Push(now_);
}

std::optional<double> HealthWindow::PerHour(std::optional<double> HealthMoment::* count) const noexcept {
  if (!(now_.*count)) return std::nullopt;
  int64_t begin = now_.at_ns - length_.count();
  // The newest moment at or before the window began; without one, the oldest there is.
  const HealthMoment* base = nullptr;
  for (size_t i = 0; i < size_; ++i) {
    const HealthMoment& moment = (*this)[i];
    if (!(moment.*count)) continue;
    if (base && moment.at_ns > begin) break;
    base = &moment;
  }
  if (!base || base->at_ns >= now_.at_ns) return std::nullopt;
  double hours = static_cast<double>(length_.count()) / 3.6e12;
  return (*(now_.*count) - *(base->*count)) / hours;
}

std::optional<double> HealthWindow::RampPerMinute() const noexcept {
  if (!now_.temperature) return std::nullopt;
  int64_t begin = now_.at_ns - length_.count();
  int64_t oldest = now_.at_ns;
  double n = 0, sum_t = 0, sum_y = 0, sum_tt = 0, sum_ty = 0;
  auto add = [&](const HealthMoment& moment) {
    double t = static_cast<double>(moment.at_ns - now_.at_ns) / 6e10, y = *moment.temperature;
    n += 1;
    sum_t += t;
    sum_y += y;
    sum_tt += t * t;
    sum_ty += t * y;
  };
  for (size_t i = 0; i < size_; ++i) {
    const HealthMoment& moment = (*this)[i];
    if (!moment.temperature || moment.at_ns < begin || moment.at_ns >= now_.at_ns) continue;
    if (moment.at_ns < oldest) oldest = moment.at_ns;
    add(moment);
  }
  add(now_);
  if (n < 3 || now_.at_ns - oldest < length_.count() / 2) return std::nullopt;
  double spread = n * sum_tt - sum_t * sum_t;
  if (spread <= 0) return std::nullopt;
  return (n * sum_ty - sum_t * sum_y) / spread;
}

namespace {

constexpr std::string_view kHead = "gpulens-fleet-health 1";
constexpr std::string_view kAbsent = "-";
constexpr size_t kMaxGpus = 256, kMaxKey = 96;
constexpr double kMaxCount = 1e18, kColdest = -100, kHottest = 300;
constexpr int64_t kNsPerMs = 1'000'000, kLastMs = INT64_MAX / kNsPerMs;

// Model names have blanks; keys must not contain separators.
bool IsKey(std::string_view key) {
  if (key.empty() || key.size() > kMaxKey) return false;
  for (char c : key) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                c == '_' || c == '.' || c == ':' || c == '/';
    if (!good) return false;
  }
  return true;
}

void AppendNumber(std::string& out, double value) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  out.append(text, end);
}

void AppendOptional(std::string& out, std::optional<double> value) {
  out += ' ';
  if (value) AppendNumber(out, *value);
  else out += kAbsent;
}

std::optional<HealthState> StateNamed(std::string_view name) {
  for (size_t i = 0; i < kHealthStates; ++i) {
    if (HealthStateName(static_cast<HealthState>(i)) == name) return static_cast<HealthState>(i);
  }
  return std::nullopt;
}

// Returns false, and appends nothing, when the file cannot hold its key.
bool AppendSavedGpu(std::string& out, const SavedGpu& gpu) {
  if (!IsKey(gpu.key)) return false;
  out += "gpu " + gpu.key + " ";
  out += gpu.state ? HealthStateName(*gpu.state) : kAbsent;
  out += " corrected";
  AppendOptional(out, gpu.corrected.last);
  AppendOptional(out, gpu.corrected.grown);
  out += " xids";
  AppendOptional(out, gpu.xids.last);
  AppendOptional(out, gpu.xids.grown);
  out += '\n';
  for (const HealthMoment& moment : gpu.moments) {
    out += "at " + std::to_string(moment.at_ns / kNsPerMs);
    out += ' ';
    // As a float: a double would add digits without meaning.
    if (moment.temperature) {
      char text[32];
      auto [end, error] = std::to_chars(text, text + sizeof text, *moment.temperature);
      out.append(text, end);
    } else {
      out += kAbsent;
    }
    AppendOptional(out, moment.corrected);
    AppendOptional(out, moment.xids);
    out += '\n';
  }
  return true;
}

// Reads the file line by line; every function returns whether its input is valid.
class Decoder {
 public:
  explicit Decoder(std::string_view text) : rest_(text) {}

  Result<std::vector<SavedGpu>> All() {
    if (NextLine() != kHead) return Bad("is not a file of this version");
    while (true) {
      if (rest_.empty()) return Bad("ends too early");
      std::string_view line = NextLine();
      std::string_view word = TakeUntil(line, ' ');
      if (word == "end") {
        auto count = ParseInt<size_t>(line);
        if (!count || *count != gpus_.size() || !rest_.empty()) return Bad("ends wrongly");
        return std::move(gpus_);
      }
      if (word == "gpu" ? !Gpu(line) : word == "at" ? !Moment(line) : true) return Bad("cannot be parsed");
    }
  }

 private:
  std::string_view NextLine() {
    ++line_;
    return TakeUntil(rest_, '\n');
  }
  Status Bad(std::string_view what) const {
    return {Code::kDataLoss, "line " + std::to_string(line_) + " " + std::string(what)};
  }

  // A number within limits, or "-"; false when it is neither.
  static bool Optional(std::string_view& rest, double low, double high, std::optional<double>& out) {
    std::string_view word = TakeUntil(rest, ' ');
    if (word == kAbsent) return true;
    out = ParseDouble(word);
    return out && *out >= low && *out <= high;
  }
  static bool Count(std::string_view& rest, std::string_view name, GrowingCount& out) {
    if (TakeUntil(rest, ' ') != name) return false;
    std::optional<double> grown;
    if (!Optional(rest, 0, kMaxCount, out.last) || !Optional(rest, 0, kMaxCount, grown) || !grown)
      return false;
    out.grown = *grown;
    return true;
  }

  bool Gpu(std::string_view rest) {
    SavedGpu gpu;
    gpu.key = TakeUntil(rest, ' ');
    std::string_view state = TakeUntil(rest, ' ');
    gpu.state = StateNamed(state);
    if (!IsKey(gpu.key) || (!gpu.state && state != kAbsent) || gpus_.size() >= kMaxGpus) return false;
    for (const SavedGpu& other : gpus_) {
      if (other.key == gpu.key) return false;
    }
    if (!Count(rest, "corrected", gpu.corrected) || !Count(rest, "xids", gpu.xids) || !rest.empty())
      return false;
    gpus_.push_back(std::move(gpu));
    return true;
  }

  // A growth is between that of the moment before and that of the GPU.
  static bool Grows(const SavedGpu& gpu, std::optional<double> HealthMoment::* member,
                    const GrowingCount& total, const HealthMoment& moment) {
    if (!(moment.*member)) return true;
    if (*(moment.*member) > total.grown) return false;
    return std::ranges::none_of(gpu.moments, [&](const HealthMoment& before) {
      return before.*member && *(before.*member) > *(moment.*member);
    });
  }

  bool Moment(std::string_view rest) {
    if (gpus_.empty()) return false;
    SavedGpu& gpu = gpus_.back();
    auto ms = ParseInt<int64_t>(TakeUntil(rest, ' '));
    if (!ms || *ms <= 0 || *ms > kLastMs || gpu.moments.size() >= HealthWindow::kMoments) return false;
    HealthMoment moment;
    moment.at_ns = *ms * kNsPerMs;
    if (!gpu.moments.empty() && moment.at_ns <= gpu.moments.back().at_ns) return false;
    std::optional<double> temperature;
    if (!Optional(rest, kColdest, kHottest, temperature)) return false;
    if (temperature) moment.temperature = static_cast<float>(*temperature);
    if (!Optional(rest, 0, kMaxCount, moment.corrected) || !Optional(rest, 0, kMaxCount, moment.xids))
      return false;
    if (!rest.empty() || !Grows(gpu, &HealthMoment::corrected, gpu.corrected, moment) ||
        !Grows(gpu, &HealthMoment::xids, gpu.xids, moment)) {
      return false;
    }
    gpu.moments.push_back(moment);
    return true;
  }

  std::string_view rest_;
  size_t line_ = 0;
  std::vector<SavedGpu> gpus_;
};

}  // namespace

std::string EncodeHealthFile(const std::vector<SavedGpu>& gpus) {
  std::string out(kHead);
  out += '\n';
  size_t count = 0;
  for (const SavedGpu& gpu : gpus) count += count < kMaxGpus && AppendSavedGpu(out, gpu);
  out += "end " + std::to_string(count) + "\n";
  return out;
}

Result<std::vector<SavedGpu>> DecodeHealthFile(std::string_view text) {
  if (text.size() > kHealthFileLimit) return Status{Code::kDataLoss, "is too large"};
  return Decoder(text).All();
}

}  // namespace gpulens
