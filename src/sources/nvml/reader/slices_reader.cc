#include "sources/nvml/reader/slices_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string_view>

namespace gpulens::nvml {
namespace {

constexpr int64_t kShortestNs = 100'000'000;
// Above this a MIG instance has no slice of its own: buses and links belong to the whole GPU.
constexpr unsigned kLastOfInstance = 13;
constexpr unsigned kMetric[] = {
#define GPULENS_NVML_GPM_NUMBER(id, number) number,
    GPULENS_NVML_GPM_FIELDS(GPULENS_NVML_GPM_NUMBER)
#undef GPULENS_NVML_GPM_NUMBER
};
static_assert(std::size(kMetric) == kGpmFieldCount && std::size(kMetric) <= kGpmRoom);
// Where libraries of some age end, newest first.
constexpr unsigned kEnds[] = {209, 97, 21, 13};

// Whether a metric is a share of time or of lookups.
constexpr bool IsShare(unsigned metric) noexcept {
  return metric <= kLastOfInstance || (metric >= 30 && metric <= 51) || (metric >= 160 && metric <= 169);
}

// The library divides two readings of counters: a full share may come out a little above 100.
double Rounded(double value, unsigned metric) noexcept {
  return IsShare(metric) && value > 100 && value < 100.5 ? 100 : value;
}

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

bool Same(const std::vector<MigDevice>& a, const std::vector<MigDevice>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const MigDevice& x, const MigDevice& y) {
    return x.key == y.key && x.device == y.device;
  });
}

double NumberOf(const Value& value, unsigned type) noexcept {
  switch (type) {
    case kDouble: return value.double_value;
    case kUint: return value.uint_value;
    case kUlong: return static_cast<double>(value.ulong_value);
    case kUllong: return static_cast<double>(value.ull_value);
    case kSllong: return static_cast<double>(value.sll_value);
    case kSint: return value.int_value;
    default: return value.ushort_value;
  }
}

void AddText(SliceFacts& out, const char* key, std::string text) {
  if (!text.empty()) out.emplace_back(key, std::move(text));
}

constexpr Duration kShareWindow = std::chrono::seconds(1);

}  // namespace

void GpmReader::Reset(Device device) {
  for (Pair& pair : pairs_) Free(pair);
  pairs_.clear();
  device_ = device;
  supported_ = reported_ = false;
  reads_ = 0;
  support_ = {};
  for (auto& metrics : metrics_) metrics = {};
  newest_metric_ = ~0U;
}

bool GpmReader::Supported() {
  if (supported_ || support_.Waits(caller_.now())) return supported_;
  GpmSupport answer{.version = kGpmVersion, .supported = 0};
  int code = caller_.Do(caller_.fn().GpmQuerySupport, device_, &answer);
  bool functions = caller_.fn().GpmAlloc && caller_.fn().GpmMetrics;
  supported_ = code == kSuccess && answer.supported && functions;
  ReadStatus status = supported_ ? ReadStatus::kOk : ReadStatus::kNotSupported;
  support_.Take(code == kSuccess ? status : ReadStatusOf(code), caller_.now());
  if (supported_ && !request_) request_ = std::make_unique_for_overwrite<GpmMetricsGet>();
  return supported_;
}

GpmReader::Pair& GpmReader::Find(const SliceKey& key) {
  for (Pair& pair : pairs_) {
    if (pair.key == key) return pair;
  }
  return pairs_.emplace_back(Pair{.key = key});
}

bool GpmReader::Allocate(Pair& pair) {
  for (GpmSample* sample : {&pair.older, &pair.spare}) {
    if (*sample || caller_.Do(caller_.fn().GpmAlloc, sample) == kSuccess) continue;
    *sample = nullptr;
    pair.again.Take(ReadStatus::kNotSupported, caller_.now());
    return false;
  }
  return true;
}

void GpmReader::Free(Pair& pair) {
  for (GpmSample* sample : {&pair.older, &pair.spare}) {
    if (*sample) caller_.Do(caller_.fn().GpmFree, *sample);
    *sample = nullptr;
  }
}

void GpmReader::KeepOnly(const std::vector<SliceKey>& present) {
  std::erase_if(pairs_, [&](Pair& pair) {
    if (std::find(present.begin(), present.end(), pair.key) != present.end()) return false;
    Free(pair);
    return true;
  });
}

void GpmReader::Read(const SliceKey& key, std::vector<SliceReading>& out) {
  if (!Supported()) return;
  Pair& pair = Find(key);
  if (key.kind != SliceKind::kMig && reads_ < kReadsToBegin) ++reads_;
  if (pair.again.Rests(caller_.now()) || !Allocate(pair)) return;
  int code = key.kind == SliceKind::kMig ? caller_.Do(caller_.fn().GpmTakeMig, device_, key.id, pair.spare)
                                         : caller_.Do(caller_.fn().GpmTake, device_, pair.spare);
  if (code != kSuccess) {
    pair.again.Take(ReadStatusOf(code), caller_.now());
    pair.older_ns = 0;  // A gap: no mean over it.
    return;
  }
  int64_t taken_ns = caller_.last_boot_ns();
  if (pair.older_ns != 0) {
    if (taken_ns - pair.older_ns < kShortestNs) return;
    Compute(pair, taken_ns, out);
  }
  std::swap(pair.older, pair.spare);
  pair.older_ns = taken_ns;
}

void GpmReader::Compute(Pair& pair, int64_t boot_ns, std::vector<SliceReading>& out) {
  bool instance = pair.key.kind == SliceKind::kMig;
  auto& metrics = metrics_[instance];
  GpmMetricsGet& request = *request_;
  request.version = kGpmVersion;
  request.older = pair.older;
  request.newer = pair.spare;
  request.count = 0;
  uint16_t fields[kGpmFieldCount];
  for (size_t i = 0; i < (more_ ? kGpmFieldCount : kGpmUsualCount); ++i) {
    if (metrics[i].Rests(boot_ns) || kMetric[i] > newest_metric_ ||
        (instance && kMetric[i] > kLastOfInstance))
      continue;
    fields[request.count] = static_cast<uint16_t>(i);
    GpmMetric& metric = request.metrics[request.count++];
    metric = GpmMetric{};
    metric.id = kMetric[i];
    metric.code = kUnknownError;
  }
  if (request.count == 0) return;
  int code = caller_.Do(caller_.fn().GpmMetrics, &request);
  if (code == nvml::kInvalidArgument) {
    const unsigned* end = std::find_if(std::begin(kEnds), std::end(kEnds),
                                       [&](unsigned number) { return number < newest_metric_; });
    if (end == std::end(kEnds)) pair.again.Take(ReadStatus::kNotSupported, boot_ns);
    else newest_metric_ = *end;
    return;
  }
  pair.again.Take(ReadStatusOf(code), boot_ns);
  if (code != kSuccess) return;
  reported_ = reported_ || !instance;
  for (unsigned i = 0; i < request.count; ++i) {
    const GpmMetric& metric = request.metrics[i];
    ReadStatus status = ReadStatusOf(metric.code);
    metrics[fields[i]].Take(status, boot_ns);
    if (status != ReadStatus::kOk) continue;
    out.push_back({.entity = index_,
                   .key = pair.key,
                   .field = fields[i],
                   .status = status,
                   .boot_ns = boot_ns,
                   .value = Rounded(metric.value, metric.id)});
  }
}

std::string MigProfileName(const DeviceAttributes& attributes, uint64_t gpu_memory) {
  if (attributes.gpu_slices == 0 || attributes.gpu_slices > 8 || attributes.memory_mib == 0 ||
      gpu_memory == 0) {
    return {};
  }
  double share = static_cast<double>(attributes.memory_mib) * 1024 * 1024 / static_cast<double>(gpu_memory);
  double eighths = std::ceil(std::min(share, 1.0) * 8) / 8;
  auto gigabytes =
      static_cast<unsigned>(std::lround(eighths * std::ceil(static_cast<double>(gpu_memory) / kGib)));
  std::string name = std::to_string(attributes.gpu_slices) + "g." + std::to_string(gigabytes) + "gb";
  bool part = attributes.compute_slices != 0 && attributes.compute_slices < attributes.gpu_slices;
  return part ? std::to_string(attributes.compute_slices) + "c." + name : name;
}

void MigReader::Reset(Device gpu) {
  gpu_ = gpu;
  max_ = GpuSlices::kUnknown;
  gpu_memory_ = 0;
  devices_.clear();
}

bool MigReader::Scan() {
  const NvmlSymbols& fn = caller_.fn();
  if (!known()) {
    unsigned max = 0;
    if (caller_.Do(fn.MaxMigDevices, gpu_, &max) != kSuccess) return false;
    max_ = std::min<uint32_t>(max, kMaxSlices);
    devices_.reserve(max_);
    found_.reserve(max_);
  }
  found_.clear();
  for (unsigned i = 0; i < max_; ++i) {
    MigDevice mig;
    int code = caller_.Do(fn.MigDeviceHandle, gpu_, i, &mig.device);
    if (code == kNotFound || code == nvml::kInvalidArgument) continue;
    if (code == kNotSupported) break;  // MIG is off.
    if (code != kSuccess) return false;
    mig.key.kind = SliceKind::kMig;
    code = caller_.Do(fn.MigGpuInstance, mig.device, &mig.key.id);
    if (code == kSuccess) code = caller_.Do(fn.MigComputeInstance, mig.device, &mig.key.sub);
    if (code == kNotFound) continue;  // Destroyed a moment ago.
    if (code != kSuccess) return false;
    auto same = [&](const MigDevice& other) { return other.key == mig.key; };
    if (std::none_of(found_.begin(), found_.end(), same)) found_.push_back(mig);
  }
  std::sort(found_.begin(), found_.end(), [](const MigDevice& a, const MigDevice& b) {
    return a.key.id != b.key.id ? a.key.id < b.key.id : a.key.sub < b.key.sub;
  });
  for (size_t i = 0; i < found_.size(); ++i)
    found_[i].first = i == 0 || found_[i - 1].key.id != found_[i].key.id;
  bool changed = !Same(devices_, found_);
  devices_.swap(found_);
  return changed;
}

void MigReader::Identify(const MigDevice& mig, SliceFacts& out) {
  const NvmlSymbols& fn = caller_.fn();
  out.clear();
  std::string uuid = QueryText(caller_, fn.Uuid, mig.device);
  std::string name = QueryText(caller_, fn.Name, mig.device);
  AddText(out, "uuid", uuid);
  AddText(out, "name", name);
  DeviceAttributes attributes{};
  bool known = caller_.Do(fn.MigAttributes, mig.device, &attributes) == kSuccess;
  // The name of a MIG device ends with its profile: "NVIDIA H100 80GB HBM3 MIG 3g.40gb".
  constexpr std::string_view kBefore = " MIG ";
  size_t at = name.rfind(kBefore);
  std::string profile = at == std::string::npos ? "" : name.substr(at + kBefore.size());
  if (profile.empty() && known) {
    if (gpu_memory_ == 0) {
      Memory memory{};
      if (caller_.Do(fn.MemoryInfo, gpu_, &memory) == kSuccess) gpu_memory_ = memory.total;
    }
    profile = MigProfileName(attributes, gpu_memory_);
  }
  AddText(out, "profile", profile);
  if (known && attributes.gpu_slices) out.emplace_back("slices", std::to_string(attributes.gpu_slices));
}

bool MigReader::Read(const MigDevice& mig, bool slow, std::vector<SliceReading>& out) {
  auto emit = [&](SliceField field, unsigned long long bytes) {
    out.push_back({.entity = index_,
                   .key = mig.key,
                   .field = static_cast<uint16_t>(field),
                   .status = ReadStatus::kOk,
                   .boot_ns = caller_.last_boot_ns(),
                   .value = static_cast<double>(bytes)});
  };
  const NvmlSymbols& fn = caller_.fn();
  MemoryV2 memory{.version = kMemoryV2, .total = 0, .reserved = 0, .free = 0, .used = 0};
  int code = caller_.Do(fn.MemoryInfoV2, mig.device, &memory);
  if (code == kSuccess) {
    emit(SliceField::kMemoryTotal, memory.total);
    emit(SliceField::kMemoryUsed, memory.used);
    emit(SliceField::kMemoryFree, memory.free);
    emit(SliceField::kMemoryReserved, memory.reserved);
  } else if (code == kFunctionNotFound) {
    Memory old{};
    code = caller_.Do(fn.MemoryInfo, mig.device, &old);
    if (code == kSuccess) {
      emit(SliceField::kMemoryTotal, old.total);
      emit(SliceField::kMemoryUsed, old.used);
      emit(SliceField::kMemoryFree, old.free);
    }
  }
  if (slow && code == kSuccess) {
    Bar1Memory bar1{};
    if (caller_.Do(fn.Bar1Memory, mig.device, &bar1) == kSuccess) emit(SliceField::kBar1Used, bar1.used);
  }
  return code == kSuccess || ReadStatusOf(code) == ReadStatus::kError;
}

void VgpuReader::Reset(Device gpu) {
  gpu_ = gpu;
  host_ = false;
  list_ = info_ = shares_ = {};
  vgpus_.clear();
}

bool VgpuReader::Scan() {
  if (list_.Rests(caller_.now())) return false;
  std::array<unsigned, kMaxSlices> list{};
  auto count = static_cast<unsigned>(list.size());
  int code = caller_.Do(caller_.fn().ActiveVgpus, gpu_, &count, list.data());
  list_.Take(ReadStatusOf(code), caller_.now());
  if (code != kSuccess) return false;
  count = std::min<unsigned>(count, kMaxSlices);
  std::sort(list.begin(), list.begin() + count);
  count = static_cast<unsigned>(std::unique(list.begin(), list.begin() + count) - list.begin());
  bool first = !std::exchange(host_, true);
  bool same = std::equal(vgpus_.begin(), vgpus_.end(), list.begin(), list.begin() + count,
                         [](const SliceKey& key, unsigned id) { return key.id == id; });
  if (same) return first;
  vgpus_.clear();
  for (unsigned i = 0; i < count; ++i) vgpus_.push_back({.kind = SliceKind::kVgpu, .id = list[i]});
  return true;
}

void VgpuReader::Identify(const SliceKey& key, SliceFacts& out) {
  const NvmlSymbols& fn = caller_.fn();
  out.clear();
  AddText(out, "uuid", QueryText(caller_, fn.VgpuUuid, key.id));
  unsigned id_type = 0, type = 0;
  AddText(out, "vm", QueryText(caller_, fn.VgpuVm, key.id, &id_type));
  AddText(out, "driver", QueryText(caller_, fn.VgpuDriver, key.id));
  if (caller_.Do(fn.VgpuType, key.id, &type) != kSuccess) return;
  std::array<char, 96> name{};
  auto size = static_cast<unsigned>(name.size());
  if (caller_.Do(fn.VgpuTypeName, type, name.data(), &size) == kSuccess)
    out.emplace_back("type", std::string(name.data(), ::strnlen(name.data(), name.size())));
}

void VgpuReader::Emit(uint32_t vgpu, SliceField field, double value, std::vector<SliceReading>& out) {
  out.push_back({.entity = index_,
                 .key = {.kind = SliceKind::kVgpu, .id = vgpu},
                 .field = static_cast<uint16_t>(field),
                 .status = ReadStatus::kOk,
                 .boot_ns = caller_.last_boot_ns(),
                 .value = value});
}

void VgpuReader::Read(int64_t unix_ns, bool slow, std::vector<SliceReading>& out) {
  if (vgpus_.empty()) return;
  const NvmlSymbols& fn = caller_.fn();
  for (const SliceKey& key : vgpus_) {
    unsigned long long bytes = 0;
    if (caller_.Do(fn.VgpuMemory, key.id, &bytes) == kSuccess)
      Emit(key.id, SliceField::kVgpuMemoryUsed, static_cast<double>(bytes), out);
    VgpuLicenseInfo license{};
    if (slow && caller_.Do(fn.VgpuLicense, key.id, &license) == kSuccess)
      Emit(key.id, SliceField::kVgpuLicensed, license.state == kLicenseStateLicensed, out);
  }
  constexpr uint64_t kWindowUs = 2'000'000;
  if (!info_.Rests(caller_.now()) || !shares_.Rests(caller_.now()))
    ReadShares(static_cast<uint64_t>(unix_ns) / 1000 - kWindowUs, out);
}

void VgpuReader::ReadShares(uint64_t since_us, std::vector<SliceReading>& out) {
  infos_.resize(kMaxSlices);
  VgpusUtilization request{.version = kVgpusUtilizationV1,
                           .value_type = 0,
                           .count = static_cast<unsigned>(infos_.size()),
                           .last_seen_us = since_us,
                           .list = infos_.data()};
  int code = kFunctionNotFound;
  const int64_t now = caller_.now();
  if (!info_.Rests(now)) {
    code = caller_.Do(caller_.fn().VgpusUtilizationInfo, gpu_, &request);
    info_.Take(ReadStatusOf(code), now);
  }
  if (ReadStatusOf(code) == ReadStatus::kNotSupported) {
    if (!shares_.Rests(now)) shares_.Take(ReadStatusOf(ReadSharesV1(since_us, out)), now);
    return;
  }
  if (code != kSuccess) return;
  for (size_t i = 0; i < std::min<size_t>(request.count, infos_.size()); ++i) {
    const VgpuUtilizationInfo& info = infos_[i];
    const std::pair<SliceField, const Value*> values[] = {
        {SliceField::kVgpuSm, &info.sm},           {SliceField::kVgpuMemory, &info.memory},
        {SliceField::kVgpuEncoder, &info.encoder}, {SliceField::kVgpuDecoder, &info.decoder},
        {SliceField::kVgpuJpeg, &info.jpeg},       {SliceField::kVgpuOfa, &info.ofa}};
    for (auto [field, value] : values) Emit(info.vgpu, field, NumberOf(*value, request.value_type), out);
  }
}

int VgpuReader::ReadSharesV1(uint64_t since_us, std::vector<SliceReading>& out) {
  samples_.resize(kMaxSlices);
  auto count = static_cast<unsigned>(samples_.size());
  unsigned type = 0;
  int code = caller_.Do(caller_.fn().VgpuUtilization, gpu_, since_us, &type, &count, samples_.data());
  if (code != kSuccess) return code;
  for (size_t i = 0; i < std::min<size_t>(count, samples_.size()); ++i) {
    const VgpuUtilizationSample& sample = samples_[i];
    Emit(sample.vgpu, SliceField::kVgpuSm, NumberOf(sample.sm, type), out);
    Emit(sample.vgpu, SliceField::kVgpuMemory, NumberOf(sample.memory, type), out);
    Emit(sample.vgpu, SliceField::kVgpuEncoder, NumberOf(sample.encoder, type), out);
    Emit(sample.vgpu, SliceField::kVgpuDecoder, NumberOf(sample.decoder, type), out);
  }
  return code;
}

SlicesReader::SlicesReader(const NvmlLibrary& library, unsigned index, CallSlot& slot, const Clock& clock,
                           SlicesReaderOptions options)
    : index_(index),
      clock_(clock),
      options_(options),
      caller_(library, slot, clock),
      mig_(caller_, index),
      gpm_(caller_, index, (options.details & kDetailMore) != 0),
      vgpu_(caller_, index),
      shares_(caller_) {}

bool SlicesReader::Due::Take(int64_t boot_ns, Duration period, Duration slack) noexcept {
  // Rounds come a little early or late: none is passed over.
  if (boot_ns + slack.count() < next_ns) return false;
  next_ns = boot_ns + period.count();
  return true;
}

void SlicesReader::Attach(Device device, Mig mig) {
  attached_ = true;
  reports_pcie_ = false;
  mig_mode_ = mig;
  mig_.Reset(device);
  gpm_.Reset(device);
  vgpu_.Reset(device);
  shares_.Reset(device);
  scan_ = repeat_ = medium_ = slow_ = {};
}

void SlicesReader::SendFacts(const SliceKey& key, reader::MessageOutbox& out) {
  views_.clear();
  for (const auto& [name, value] : facts_) views_.push_back({name, value});
  out.Send(EncodeSlice(encoder_, index_, key, views_));
}

void SlicesReader::SendList(SliceKind kind, uint32_t max, const std::vector<SliceKey>& keys,
                            reader::MessageOutbox& out) {
  out.Send(EncodeSlices(encoder_, index_, kind, max, keys));
}

void SlicesReader::SendMig(reader::MessageOutbox& out) {
  keys_.clear();
  for (const MigDevice& mig : mig_.devices()) keys_.push_back(mig.key);
  SendList(SliceKind::kMig, mig_.max(), keys_, out);
  for (const MigDevice& mig : mig_.devices()) {
    mig_.Identify(mig, facts_);
    SendFacts(mig.key, out);
  }
  if (mig_mode_ == Mig::kOn) gpm_.KeepOnly(keys_);
}

void SlicesReader::SendVgpus(reader::MessageOutbox& out) {
  SendList(SliceKind::kVgpu, 0, vgpu_.vgpus(), out);
  for (const SliceKey& key : vgpu_.vgpus()) {
    vgpu_.Identify(key, facts_);
    SendFacts(key, out);
  }
}

void SlicesReader::Scan(int64_t boot_ns, bool rescan, reader::MessageOutbox& out) {
  if (!attached_) return;
  Duration slack = options_.interval / 2;
  bool due = scan_.Take(boot_ns, options_.medium, slack);
  // Sent again now and then: a message may have been lost.
  bool repeat = repeat_.Take(boot_ns, options_.slow, slack);
  if (!due && !rescan && !std::exchange(rescan_, false)) return;
  if (mig_mode_ != Mig::kNone) {
    bool known = mig_.known();
    bool changed = mig_.Scan();
    if (mig_.known() && (changed || repeat || !known)) SendMig(out);
  }
  bool changed = vgpu_.Scan();
  if (vgpu_.host() && (changed || repeat)) SendVgpus(out);
}

void SlicesReader::Read(int64_t boot_ns, reader::MessageOutbox& out) {
  if (!attached_) return;
  Duration slack = options_.interval / 2;
  bool medium = medium_.Take(boot_ns, options_.medium, slack);
  bool slow = slow_.Take(boot_ns, options_.slow, slack);
  readings_.clear();
  if (mig_mode_ == Mig::kOn) {
    for (const MigDevice& mig : mig_.devices()) {
      if (!mig.first) continue;
      if (!mig_.Read(mig, slow, readings_)) rescan_ = true;
      gpm_.Read(mig.key, readings_);
    }
  } else {
    gpm_.Read(SliceKey{}, readings_);
    for (const SliceReading& reading : readings_) {
      reports_pcie_ |= reading.field == static_cast<uint16_t>(SliceField::kGpmPcieTx);
    }
  }
  int64_t unix_ns = clock_.Now().unix_ns;
  if (vgpu_.host() && medium) vgpu_.Read(unix_ns, slow, readings_);
  if (!readings_.empty()) out.Send(EncodeSliceReadings(encoder_, index_, readings_));
  if (mig_mode_ == Mig::kOn) return;
  if (shares_.Read(unix_ns, std::max<Duration>(options_.interval, kShareWindow)))
    out.Send(EncodeShares(encoder_, index_, caller_.last_boot_ns(), shares_.shares()));
}

}  // namespace gpulens::nvml
