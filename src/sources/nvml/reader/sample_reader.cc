#include "sources/nvml/reader/sample_reader.h"

#include <algorithm>

namespace gpulens::nvml {
namespace {

constexpr unsigned kMostSamples = 4096;

struct SampleKind {
  SamplingType type;
  std::array<Field, 3> fields;  // min, mean, max
  uint64_t highest;             // Greater ones are no samples: left out.
  int64_t scale;                // Of a field's unit in one of the library's.
};
using F = Field;
constexpr std::array<SampleKind, SampleReader::kKinds> kTable = {{
    {kSamplePower, {F::kSampledPowerMin, F::kSampledPowerMean, F::kSampledPowerMax}, 5'000'000, 1},
    {kSampleGpuUtilization, {F::kSampledGpuMin, F::kSampledGpuMean, F::kSampledGpuMax}, 100, 1000},
    {kSampleMemoryUtilization,
     {F::kSampledMemoryMin, F::kSampledMemoryMean, F::kSampledMemoryMax},
     100,
     1000},
    {kSampleProcessorClock, {F::kSampledClockMin, F::kSampledClockMean, F::kSampledClockMax}, 20'000, 1},
    {kSampleMemoryClock,
     {F::kSampledMemoryClockMin, F::kSampledMemoryClockMean, F::kSampledMemoryClockMax},
     20'000,
     1},
}};

void EmitAll(const ItemContext& in, const SampleKind& kind, ReadStatus status) {
  for (Field field : kind.fields) in.Emit(field, status, 0);
}

}  // namespace

void SampleReader::Attach() { memory_ = {}; }

int SampleReader::Read(const ItemContext& in, bool again) {
  const int64_t now = in.caller.now();
  for (size_t i = 0; i < kKinds; ++i) {
    if (memory_[i].again.Rests(now)) {
      if (again) EmitAll(in, kTable[i], ReadStatus::kNotSupported);
      continue;
    }
    int code = ReadKind(in, i);
    ReadStatus status = ReadStatusOf(code);
    memory_[i].again.Take(status, now);
    if (code == kSuccess) continue;
    EmitAll(in, kTable[i], status);
    if (status == ReadStatus::kLost || status == ReadStatus::kResetRequired) return code;
  }
  return kSuccess;
}

int SampleReader::ReadKind(const ItemContext& in, size_t index) {
  const SampleKind& kind = kTable[index];
  Memory& memory = memory_[index];
  auto ask = [&](unsigned& type, unsigned& count, Sample* samples) {
    return in.caller.Do(Call::kSamples, in.caller.fn().Samples, in.identity.device, unsigned{kind.type},
                        memory.last_us, &type, &count, samples);
  };
  unsigned type = 0, count = 0;
  if (memory.room == 0) {
    // Without a buffer the library tells how many samples it keeps.
    int code = ask(type, count, nullptr);
    if (code != kSuccess && code != kInsufficientSize) return code;
    if (count == 0) return kNotFound;
    memory.room = std::min(count, kMostSamples);
    if (buffer_.size() < memory.room) buffer_.resize(memory.room);
  }
  count = memory.room;
  int code = ask(type, count, buffer_.data());
  if (code == kInsufficientSize) memory.room = 0;
  if (code != kSuccess) return code == kInsufficientSize ? int{kNotFound} : code;
  uint64_t least = UINT64_MAX, greatest = 0, sum = 0, found = 0;
  unsigned long long newest = memory.last_us;
  for (const Sample& sample : std::span(buffer_).first(std::min(count, memory.room))) {
    if (sample.timestamp_us <= memory.last_us) continue;
    newest = std::max(newest, sample.timestamp_us);
    uint64_t value = UnsignedOf(type, sample.value);
    if (value > kind.highest) continue;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    sum += value;
    ++found;
  }
  // The first list reaches back to before there was anybody to ask.
  bool first = memory.last_us == 0;
  memory.last_us = newest;
  if (first || found < 2) return kNotFound;
  in.Emit(kind.fields[0], static_cast<int64_t>(least) * kind.scale);
  in.Emit(kind.fields[1], (static_cast<int64_t>(sum) * kind.scale) / static_cast<int64_t>(found));
  in.Emit(kind.fields[2], static_cast<int64_t>(greatest) * kind.scale);
  return kSuccess;
}

}  // namespace gpulens::nvml
