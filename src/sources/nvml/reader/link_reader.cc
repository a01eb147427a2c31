#include "sources/nvml/reader/link_reader.h"

#include <algorithm>

namespace gpulens::nvml {
namespace {

constexpr unsigned kLegacyLinks = 12;

// What ends a round, or kSuccess.
int Breaking(int code) noexcept {
  ReadStatus status = ReadStatusOf(code);
  return status == ReadStatus::kLost || status == ReadStatus::kResetRequired ? code : int{kSuccess};
}

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

struct LinkReader::Row {
  LinkField field;
  FieldTier tier;
  uint32_t details;     // 0: always
  unsigned id;          // With the link as scope; 0: none
  unsigned low = 0;     // Older ids: of link 0,
  unsigned high = 0;    // and of link 6; they end with link 11
  unsigned second = 0;  // Another id with the link as scope
  uint8_t scale = 0;    // The reading is shifted by so many bits
  bool c2c = false;

  // False when this variant has no id for the link.
  bool IdOf(unsigned variant, unsigned link, unsigned& out_id, unsigned& out_scope) const noexcept {
    out_scope = link;
    out_id = variant == 0 ? id : second;
    if (variant == 0 || second != 0) return out_id != 0;
    if (low == 0 || link >= kLegacyLinks) return false;
    out_id = link < 6 ? low + link : high + link - 6;
    out_scope = 0;
    return true;
  }
  unsigned variants() const noexcept { return low != 0 || second != 0 ? 2 : 1; }
};

const std::array<LinkReader::Row, LinkReader::kRows> LinkReader::kTable = [] {
  constexpr FieldTier kMedium = FieldTier::kMedium, kSlow = FieldTier::kSlow;
  constexpr uint32_t kLinks = kDetailLinks;
  std::array<Row, kRows> out{{
      {LinkField::kCrcFlit, kSlow, 0, kFiNvlinkCrcDl, 32, 96},
      {LinkField::kCrcData, kSlow, 0, 0, 39, 102},
      {LinkField::kReplay, kSlow, 0, kFiNvlinkReplayDl, 46, 108},
      {LinkField::kRecovery, kSlow, 0, kFiNvlinkRecoveryDl, 53, 114},
      {LinkField::kEccData, kSlow, 0, 0, 148, 154},
      {LinkField::kMalformed, kSlow, 0, 206},
      {LinkField::kOverrun, kSlow, 0, 207},
      {LinkField::kReceive, kSlow, 0, 208},
      {LinkField::kRemote, kSlow, 0, 209},
      {LinkField::kGeneral, kSlow, 0, 210},
      {LinkField::kIntegrity, kSlow, 0, 211},
      {LinkField::kDiscard, kSlow, 0, 212},
      {LinkField::kEffective, kSlow, 0, 219},
      {LinkField::kSymbol, kSlow, 0, 221},
      {LinkField::kTxBytes, kMedium, kLinks, kFiNvlinkXmitBytes},
      {LinkField::kTxBytes, kMedium, kLinks, kFiNvlinkDataTx, 0, 0, 0, 10},
      {LinkField::kRxBytes, kMedium, kLinks, kFiNvlinkRcvBytes},
      {LinkField::kRxBytes, kMedium, kLinks, kFiNvlinkDataRx, 0, 0, 0, 10},
      {LinkField::kTxPackets, kSlow, kLinks, 201},
      {LinkField::kRxPackets, kSlow, kLinks, 203},
      {LinkField::kSpeed, kSlow, kLinks, kFiNvlinkSpeed, 84, 132},
      {LinkField::kLowPower, kSlow, kLinks, 167},
      {LinkField::kRemoteLink, kSlow, kLinks, 146},
      {LinkField::kRecoverySuccess, kSlow, kLinks, 213},
      {LinkField::kRecoveryFailure, kSlow, kLinks, 214},
      {LinkField::kBerRaw, kSlow, kLinks, 293},
      {LinkField::kBerEffective, kSlow, kLinks, 220},
      {LinkField::kBerSymbol, kSlow, kLinks, 222},
      {LinkField::kActive, kMedium, 0, kFiC2cStatus, 0, 0, 0, 0, true},
      {LinkField::kSpeed, kSlow, kLinks, 172, 0, 0, 0, 0, true},
      {LinkField::kInterrupt, kSlow, 0, 231, 0, 0, 0, 0, true},
      {LinkField::kReplay, kSlow, 0, 232, 0, 0, 0, 0, true},
      {LinkField::kReplayBackToBack, kSlow, 0, 233, 0, 0, 0, 0, true},
      {LinkField::kLowPower, kSlow, kLinks, 234, 0, 0, 0, 0, true},
  }};
  constexpr size_t kFirstFec = kRows - kFecBins;
  constexpr unsigned kFirstFecId = 235;
  for (unsigned bin = 0; bin < kFecBins; ++bin) {
    out[kFirstFec + bin] = {static_cast<LinkField>(static_cast<unsigned>(LinkField::kFec0) + bin), kSlow,
                            kLinks, kFirstFecId + bin};
  }
  return out;
}();

unsigned LinkReader::LinksOf(const Row& row) const noexcept { return row.c2c ? c2c_links_ : nvlinks_; }

void LinkReader::Attach(const GpuIdentity& identity, uint32_t details) {
  nvlinks_ = identity.nvlink_count;
  c2c_links_ = identity.c2c_count;
  details_ = details;
  memory_ = {};
  remotes_ = {};
  groups_.reserve(kRows);
}

size_t LinkReader::most_requests() const noexcept {
  size_t sum = 0;
  for (const Row& row : kTable) sum += LinksOf(row);
  return sum;
}

void LinkReader::AddRequests(const Due& due, int64_t boot_ns, std::vector<FieldValue>& requests) {
  groups_.clear();
  for (size_t i = 0; i < kRows; ++i) {
    const Row& row = kTable[i];
    Memory& memory = memory_[i];
    bool wanted = row.details == 0 || (row.details & details_) != 0;
    const bool again = memory.again.Due(boot_ns);
    if (!wanted || memory.again.Rests(boot_ns) || (!again && !due[static_cast<size_t>(row.tier)])) continue;
    if (memory.again.absent() && !memory.again.worked()) memory.variant = 0;  // All of its ids once more.
    Group group{.row = static_cast<uint8_t>(i)};
    unsigned id = 0, scope = 0;
    // A counter that has no newer id starts with the older ones.
    if (!row.IdOf(memory.variant, 0, id, scope) && memory.variant + 1u < row.variants()) ++memory.variant;
    for (unsigned link = 0; link < LinksOf(row); ++link) {
      if (!row.IdOf(memory.variant, link, id, scope)) break;
      FieldValue& request = requests.emplace_back(FieldValue{});
      request.field_id = id;
      request.scope_id = scope;
      ++group.links;
    }
    if (group.links > 0) groups_.push_back(group);
  }
}

int LinkReader::Take(std::span<const FieldValue> answers, int64_t boot_ns, ReadingSink& sink) {
  int breaking = kSuccess;
  size_t at = 0;
  for (const Group& group : groups_) {
    if (at + group.links > answers.size()) break;
    int code = TakeGroup(group, answers.subspan(at, group.links), boot_ns, sink);
    if (code != kSuccess) breaking = code;
    at += group.links;
  }
  return breaking;
}

// Only when no link at all has the counter does the board not have it: a link that is down may report so,
// too.
int LinkReader::TakeGroup(const Group& group, std::span<const FieldValue> answers, int64_t boot_ns,
                          ReadingSink& sink) {
  const Row& row = kTable[group.row];
  Memory& memory = memory_[group.row];
  size_t unsupported = 0, failed = 0;
  int breaking = kSuccess;
  for (unsigned link = 0; link < answers.size(); ++link) {
    const FieldValue& answer = answers[link];
    ReadStatus status = ReadStatusOf(answer.code);
    unsupported += status == ReadStatus::kNotSupported;
    failed += status == ReadStatus::kError;
    if (int code = Breaking(answer.code); code != kSuccess) breaking = code;
    if (status == ReadStatus::kNotSupported) continue;
    uint64_t raw = status == ReadStatus::kOk ? UnsignedOf(answer.value_type, answer.value) : 0;
    sink.Emit(row.c2c ? LinkOfC2c(link) : LinkOfNvlink(link), static_cast<uint16_t>(row.field), status,
              static_cast<int64_t>(raw << row.scale));
  }
  if (unsupported < answers.size()) {
    memory.again.Take(failed > 0 ? ReadStatus::kError : ReadStatus::kOk, boot_ns);
  } else if (!memory.again.worked() && memory.variant + 1u < row.variants()) {
    ++memory.variant;  // Read in the next round of its tier.
  } else {
    memory.again.Take(ReadStatus::kNotSupported, boot_ns);
  }
  return breaking;
}

int LinkReader::ReadRemotes(const ItemContext& in) {
  if ((details_ & kDetailLinks) == 0 || remotes_.Rests(in.caller.now())) return kSuccess;
  const NvmlSymbols& fn = in.caller.fn();
  Device device = in.identity.device;
  auto emit = [&](unsigned link, LinkField field, int64_t raw) {
    in.sink.Emit(LinkOfNvlink(link), static_cast<uint16_t>(field), ReadStatus::kOk, raw);
  };
  bool any = false;
  for (unsigned link = 0; link < nvlinks_; ++link) {
    unsigned version = 0, type = 0;
    int code = in.caller.Do(fn.NvLinkVersion, device, link, &version);
    if (Breaking(code) != kSuccess) return code;
    if (code == kSuccess) emit(link, LinkField::kVersion, version), any = true;
    code = in.caller.Do(fn.NvLinkRemoteType, device, link, &type);
    if (code == kSuccess) emit(link, LinkField::kRemoteType, type), any = true;
    PciInfo pci{};
    code = in.caller.Do(fn.NvLinkRemotePci, device, link, &pci);
    if (code == kSuccess) {
      any = true;
      emit(link, LinkField::kRemotePci,
           int64_t{pci.domain} << 16 | int64_t{pci.bus & 0xFF} << 8 | int64_t{pci.device & 0xFF});
    }
  }
  remotes_.Take(any ? ReadStatus::kOk : ReadStatus::kNotSupported, in.caller.now());
  return kSuccess;
}

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
  auto query = [&](unsigned& type, unsigned& count, Sample* samples) {
    return in.caller.Do(in.caller.fn().Samples, in.identity.device, unsigned{kind.type}, memory.last_us,
                        &type, &count, samples);
  };
  unsigned type = 0, count = 0;
  if (memory.room == 0) {
    // Without a buffer the library returns how many samples it keeps.
    int code = query(type, count, nullptr);
    if (code != kSuccess && code != kInsufficientSize) return code;
    if (count == 0) return kNotFound;
    memory.room = std::min(count, kMostSamples);
    if (buffer_.size() < memory.room) buffer_.resize(memory.room);
  }
  count = memory.room;
  int code = query(type, count, buffer_.data());
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
  // The first list reaches back to before the reader started.
  bool first = memory.last_us == 0;
  memory.last_us = newest;
  if (first || found < 2) return kNotFound;
  in.Emit(kind.fields[0], static_cast<int64_t>(least) * kind.scale);
  in.Emit(kind.fields[1], (static_cast<int64_t>(sum) * kind.scale) / static_cast<int64_t>(found));
  in.Emit(kind.fields[2], static_cast<int64_t>(greatest) * kind.scale);
  return kSuccess;
}

}  // namespace gpulens::nvml
