// The bytes of sums: version 2; the counts; per measure its moments, the length of its sketch and the sketch;
// per mean a count and a sum; the four ratios. Whole numbers are 8 bytes, lowest first, and so are the bits
// of doubles; of a measure or mean that nothing was added to there is one byte 0, else a byte 1 before it.
#include <bit>
#include <cmath>

#include "store/telemetry/summary/sums.h"

namespace gpulens::telemetry {
namespace {

constexpr char kVersion = 2;  // 1 had two ratios: its file is rolled up anew (schema.cc)
// Of one roll-up.
constexpr uint64_t kMostCount = uint64_t{1} << 56;

void Append(std::string& out, uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) out += static_cast<char>(value >> (8 * byte));
}
void Append(std::string& out, double value) { Append(out, std::bit_cast<uint64_t>(value)); }

class Reader {
 public:
  explicit Reader(std::string_view bytes) noexcept : rest_(bytes) {}
  bool done() const noexcept { return good_ && rest_.empty(); }

  uint8_t Byte() noexcept {
    const std::string_view bytes = Bytes(1);
    return bytes.empty() ? 0 : static_cast<uint8_t>(bytes.front());
  }
  uint64_t Number() noexcept {
    uint64_t value = 0;
    int shift = 0;
    for (char byte : Bytes(8)) {
      value |= uint64_t{static_cast<unsigned char>(byte)} << shift;
      shift += 8;
    }
    return value;
  }
  uint64_t Count() noexcept {
    const uint64_t count = Number();
    good_ = good_ && count <= kMostCount;
    return count;
  }
  double Real() noexcept {
    const auto value = std::bit_cast<double>(Number());
    good_ = good_ && std::isfinite(value);
    return value;
  }
  // Whether something follows.
  bool Some() noexcept {
    const uint8_t some = Byte();
    good_ = good_ && some <= 1;
    return good_ && some == 1;
  }
  std::string_view Bytes(uint64_t n) noexcept {
    good_ = good_ && n <= rest_.size();
    if (!good_) return {};
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  void Refuse() noexcept { good_ = false; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

void Sums::AppendBytes(std::string& out) const {
  out += kVersion;
  for (uint64_t count : counts_) Append(out, count);
  std::string sketch;
  for (const Measured& measured : measured_) {
    const Moments& moments = measured.moments;
    out += moments.n == 0 ? '\0' : '\1';
    if (moments.n == 0) continue;
    for (double value : {moments.sum, moments.mean, moments.squares, moments.min, moments.max})
      Append(out, value);
    sketch.clear();
    measured.sketch.AppendBytes(sketch);
    Append(out, uint64_t{sketch.size()});
    out += sketch;
  }
  for (const Sum& mean : means_) {
    out += mean.n == 0 ? '\0' : '\1';
    if (mean.n == 0) continue;
    Append(out, mean.n);
    Append(out, mean.sum);
  }
  for (const Ratio& ratio : {per_second_, per_joule_, per_watt_second_, all_per_joule_}) {
    Append(out, ratio.above);
    Append(out, ratio.below);
  }
}

Status Sums::MergeBytes(std::string_view bytes) {
  Status bad{Code::kDataLoss, "not a roll-up, or one of another version"};
  Reader reader(bytes);
  if (reader.Byte() != kVersion) return bad;
  Sums read;
  for (uint64_t& count : read.counts_) count = reader.Count();
  for (Measured& measured : read.measured_) {
    if (!reader.Some()) continue;
    Moments& moments = measured.moments;
    for (double* value : {&moments.sum, &moments.mean, &moments.squares, &moments.min, &moments.max})
      *value = reader.Real();
    const std::string_view sketch = reader.Bytes(reader.Number());
    if (!measured.sketch.MergeBytes(sketch)) return bad;
    moments.n = measured.sketch.count();
    if (moments.n == 0 || moments.min > moments.max) reader.Refuse();
  }
  for (Sum& mean : read.means_) {
    if (!reader.Some()) continue;
    mean.n = reader.Count();
    mean.sum = reader.Real();
    if (mean.n == 0) reader.Refuse();
  }
  for (Ratio* ratio : {&read.per_second_, &read.per_joule_, &read.per_watt_second_, &read.all_per_joule_}) {
    ratio->above = reader.Real();
    ratio->below = reader.Real();
  }
  if (!reader.done()) return bad;
  Merge(read);
  return Ok();
}

}  // namespace gpulens::telemetry
