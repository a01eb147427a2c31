#include "sources/nvml/reader/parts_reader.h"

#include <algorithm>
#include <utility>

namespace gpulens::nvml {
namespace {

constexpr Duration kShareWindow = std::chrono::seconds(1);

}  // namespace

PartsReader::PartsReader(const NvmlLibrary& library, unsigned index, CallSlot& slot, const Clock& clock,
                         PartsOptions options)
    : index_(index),
      clock_(clock),
      options_(options),
      caller_(library, slot, clock),
      mig_(caller_, index),
      gpm_(caller_, index, (options.details & kDetailMore) != 0),
      vgpu_(caller_, index),
      shares_(caller_) {}

bool PartsReader::Due::Take(int64_t boot_ns, Duration period, Duration slack) noexcept {
  // Rounds come a little early or late: none is passed over.
  if (boot_ns + slack.count() < next_ns) return false;
  next_ns = boot_ns + period.count();
  return true;
}

void PartsReader::Attach(Device device, Mig mig) {
  attached_ = true;
  reports_pcie_ = false;
  mig_mode_ = mig;
  mig_.Reset(device);
  gpm_.Reset(device);
  vgpu_.Reset(device);
  shares_.Reset(device);
  scan_ = repeat_ = medium_ = slow_ = {};
}

void PartsReader::SendFacts(const PartKey& key, driver::Outbox& out) {
  views_.clear();
  for (const auto& [name, value] : facts_) views_.push_back({name, value});
  out.Send(EncodePart(encoder_, index_, key, views_));
}

void PartsReader::SendList(PartKind kind, uint32_t max, const std::vector<PartKey>& keys,
                           driver::Outbox& out) {
  out.Send(EncodeParts(encoder_, index_, kind, max, keys));
}

void PartsReader::SendMig(driver::Outbox& out) {
  keys_.clear();
  for (const MigDevice& mig : mig_.devices()) keys_.push_back(mig.key);
  SendList(PartKind::kMig, mig_.max(), keys_, out);
  for (const MigDevice& mig : mig_.devices()) {
    mig_.Identify(mig, facts_);
    SendFacts(mig.key, out);
  }
  if (mig_mode_ == Mig::kOn) gpm_.KeepOnly(keys_);
}

void PartsReader::SendVgpus(driver::Outbox& out) {
  SendList(PartKind::kVgpu, 0, vgpu_.vgpus(), out);
  for (const PartKey& key : vgpu_.vgpus()) {
    vgpu_.Identify(key, facts_);
    SendFacts(key, out);
  }
}

void PartsReader::Scan(int64_t boot_ns, bool rescan, driver::Outbox& out) {
  if (!attached_) return;
  Duration slack = options_.interval / 2;
  bool due = scan_.Take(boot_ns, options_.medium, slack);
  // Said again now and then: a message may have been lost.
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

void PartsReader::Read(int64_t boot_ns, driver::Outbox& out) {
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
    gpm_.Read(PartKey{}, readings_);
    for (const PartReading& reading : readings_) {
      reports_pcie_ |= reading.field == static_cast<uint16_t>(PartField::kGpmPcieTx);
    }
  }
  int64_t unix_ns = clock_.Now().unix_ns;
  if (vgpu_.host() && medium) vgpu_.Read(unix_ns, slow, readings_);
  if (!readings_.empty()) out.Send(EncodePartReadings(encoder_, index_, readings_));
  if (mig_mode_ == Mig::kOn) return;
  if (shares_.Read(unix_ns, std::max<Duration>(options_.interval, kShareWindow)))
    out.Send(EncodeShares(encoder_, index_, caller_.last_boot_ns(), shares_.shares()));
}

}  // namespace gpulens::nvml
