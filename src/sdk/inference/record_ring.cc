#include "sdk/inference/record_ring.h"

namespace gpulens::inference {

const uint64_t* PackedRecord::UnpackNumbers(const uint64_t* from, uint64_t known,
                                            InferenceRecord& to) noexcept {
  using Clock = std::chrono::system_clock;
  to.time = Clock::time_point(Clock::duration(static_cast<int64_t>(*from++)));
  int bit = kFirst;
  EachNumber(to, [&](auto& value) {
    if (!(known >> bit++ & 1)) return;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>)
      value = std::bit_cast<double>(*from++);
    else value = static_cast<int64_t>(*from++);
  });
  if (known >> kItl & 1) {
    std::memcpy(static_cast<void*>(&to.itl_seconds), from, sizeof to.itl_seconds);
    from += sizeof to.itl_seconds / sizeof *from;
  }
  to.streaming = known >> kStreaming & 1;
  to.warmup = known >> kWarmup & 1;
  to.outcome = static_cast<Outcome>(known >> kOutcome);
  return from;
}

const uint64_t* PackedRecord::UnpackNumbers(const uint64_t* from, uint64_t known,
                                            RecordNumbers& to) noexcept {
  for (size_t i = 0; i < kNumbers; ++i)
    if (known >> (kFirst + i) & 1) std::memcpy(reinterpret_cast<char*>(&to) + 8 * i, from++, 8);
  return from;
}

template <class Size, class T>
void PackedRecord::UnpackTexts(const char* from, uint64_t known, T& to) noexcept {
  EachText(to, [&](std::string_view& text) {
    if (known & 1) {
      Size size = 0;
      std::memcpy(&size, from, sizeof size);
      text = {from + sizeof size, size};
      from += sizeof size + text.size();
    }
    known >>= 1;
  });
}

telemetry::RecordRow PackedRecord::Unpack() const noexcept {
  const uint64_t known = words[0];
  const uint64_t* from = words.data() + 1;
  const char* far = known & kFar ? reinterpret_cast<const char*>(*from++) : nullptr;
  if (known & kSettler) ++from;
  const auto unpack = [&](auto& numbers, auto& to) {
    from = UnpackNumbers(from, known, numbers);
    if (far) UnpackTexts<FarSize>(far, known, to);
    else UnpackTexts<NearSize>(reinterpret_cast<const char*>(from), known, to);
  };
  if (known & kRow) {
    telemetry::RecordRow row;
    unpack(row.numbers, row);
    return row;
  }
  InferenceRecord record;
  unpack(record, record);
  return telemetry::FromRecord(record);
}

}  // namespace gpulens::inference
