#include "sources/nvml/reader/gpu_device.h"

namespace gpulens::nvml {
namespace {

driver::DeviceState StateOf(int code) noexcept {
  switch (code) {
    case kSuccess: return driver::DeviceState::kOk;
    case kNoPermission: return driver::DeviceState::kNoPermission;
    case kGpuIsLost:
    case kGpuNotFound: return driver::DeviceState::kLost;
    case kResetRequired: return driver::DeviceState::kResetRequired;
    default: return driver::DeviceState::kFailed;
  }
}

}  // namespace

GpuDevice::GpuDevice(const NvmlLibrary& library, CallSlot& slot, const Clock& clock, Options options)
    : index_(options.index),
      events_(std::move(options.events)),
      reader_(library, index_, slot, clock, options.reader),
      parts_(library, index_, slot, clock,
             {.interval = options.reader.periods[static_cast<size_t>(Tier::kFast)],
              .medium = options.reader.periods[static_cast<size_t>(Tier::kMedium)],
              .slow = options.reader.periods[static_cast<size_t>(Tier::kSlow)],
              .details = options.reader.details}) {}

driver::DeviceReader::Attached GpuDevice::Attach() {
  int code = reader_.Attach();
  if (code != kSuccess) return {StateOf(code), code};
  PartsReader::Mig mig = PartsReader::Mig::kNone;
  for (const auto& [key, value] : facts()) {
    if (key == "mig_mode") mig = value == "enabled" ? PartsReader::Mig::kOn : PartsReader::Mig::kOff;
  }
  parts_.Attach(reader_.identity().device, mig);
  if (events_) events_->Register(parts_.caller(), index_, reader_.identity().device);
  return {};
}

bool GpuDevice::Round(int64_t boot_ns, driver::Outbox& out) {
  parts_.Scan(boot_ns, events_ && events_->TakeRescan(index_), out);
  reader_.SplitProcesses(parts_.mig_devices());
  bool good = reader_.Read(boot_ns);
  // What was lost may not be due again for a minute.
  if (!reader_.readings().empty() && !out.Send(encoder_.Encode(reader_.readings()))) reader_.ReadAgain();
  if (reader_.has_processes())
    out.Send(EncodeProcesses(encoder_, index_, reader_.processes_boot_ns(), reader_.processes()));
  if (good) parts_.Read(boot_ns, out);
  if (parts_.reports_pcie()) reader_.SkipBlocking();
  // Not asked for before it is known whether somebody else tells them: each source has its own way to be
  // wrong.
  if (good && !parts_.will_report_pcie() && reader_.ReadBlocking() && !reader_.readings().empty())
    out.Send(encoder_.Encode(reader_.readings()));
  return good;
}

uint64_t GpuDevice::calls() const noexcept { return reader_.calls() + parts_.calls(); }

}  // namespace gpulens::nvml
