#include "sdk/energy/sources/system_sources.h"

#include <algorithm>
#include <cstring>

#include "base/raw_sentinel.h"
#include "base/result.h"
#include "sdk/energy/sources/visible_devices.h"
#include "sources/amdsmi/amdsmi_fields.h"
#include "sources/amdsmi/reader/amdsmi_library.h"

namespace gpulens::sdk {
namespace {

// Resolution of the counters of known boards.
constexpr double kAmdStepJoules = 15.3e-6;

Status AmdSmiStatus(int code, std::string_view call) {
  std::string text = std::string(call) + ": " + std::string(amdsmi::ReturnText(code));
  if (code == amdsmi::kNoPermission) return {gpulens::Code::kPermissionDenied, std::move(text)};
  return {gpulens::Code::kIo, std::move(text)};
}

Status AmdSmiStatus(const reader::VendorLibrary::Opened& opened) {
  switch (opened.fault) {
    case reader::ReaderFault::kNone: return Ok();
    case reader::ReaderFault::kNoPermission: return {gpulens::Code::kPermissionDenied, opened.detail};
    case reader::ReaderFault::kLibraryNotFound:
    case reader::ReaderFault::kDriverNotLoaded: return {gpulens::Code::kUnavailable, opened.detail};
    default: return {gpulens::Code::kIo, opened.detail};
  }
}

bool AmdSmiHasNone(int code) noexcept {
  return code == amdsmi::kNotSupported || code == amdsmi::kNotYetImplemented ||
         code == amdsmi::kFunctionMissing;
}

// GPUs that the environment allows: HIP's list indexes those that ROCR's left.
std::vector<size_t> Visible(const std::vector<VisibleName>& names) {
  const std::vector<size_t> first = VisibleDevices(Variable("ROCR_VISIBLE_DEVICES"), names);
  std::vector<VisibleName> left;
  for (size_t i : first) left.push_back(names[i]);
  auto list = Variable("HIP_VISIBLE_DEVICES");
  if (!list) list = Variable("CUDA_VISIBLE_DEVICES");
  std::vector<size_t> out;
  for (size_t i : VisibleDevices(list, left)) out.push_back(first[i]);
  return out;
}

}  // namespace

struct AmdEnergy::Opened {
  Opened(amdsmi::SymbolLookup lookup, reader::CallSlot& slot, const Clock& clock)
      : library("", lookup), caller(library, slot, clock) {}
  amdsmi::AmdsmiLibrary library;
  amdsmi::AmdsmiCaller caller;
};

AmdEnergy::AmdEnergy(amdsmi::SymbolLookup lookup, const Clock& clock)
    : lookup_(lookup), clock_(clock), scratch_(amdsmi::kScratchBytes) {}
AmdEnergy::~AmdEnergy() = default;

std::string AmdEnergy::Doing() const {
  const auto view = slot_.Read();
  return view.call == reader::kNoCall ? std::string() : std::string(amdsmi::CallName(view.call));
}

Result<std::vector<EnergyDevice>> AmdEnergy::Open() {
  boards_.clear();
  // The library opened before stays open: it cannot be closed safely.
  if (opened_) opened_.release();
  opened_ = std::make_unique<Opened>(lookup_, slot_, clock_);
  RETURN_IF_ERROR(AmdSmiStatus(opened_->library.Open(slot_)));
  std::vector<EnergyDevice> devices;
  std::vector<VisibleName> names;
  std::vector<size_t> board_of;
  for (const amdsmi::ListedProcessor& processor : opened_->library.processors()) {
    VisibleName& name = names.emplace_back();
    EnergyDevice device = Describe(processor, name.parts);
    name.uuid = device.id;
    if (processor.partition == 0) {
      boards_.emplace_back().handle = processor.handle;
      devices.push_back(std::move(device));
    }
    board_of.push_back(boards_.empty() ? 0 : boards_.size() - 1);
  }
  if (devices.empty()) return Status{gpulens::Code::kUnavailable, "the library lists no GPU"};
  for (EnergyDevice& device : devices) device.usable = false;
  for (size_t i : Visible(names)) devices[board_of[i]].usable = true;
  for (size_t i = 0; i < devices.size(); ++i) {
    EnergyReading reading;
    const bool silent =
        AmdSmiHasNone(ReadCounter(boards_[i], reading)) && AmdSmiHasNone(ReadPower(boards_[i], reading));
    devices[i].usable &= !silent;
  }
  return devices;
}

EnergyDevice AmdEnergy::Describe(const amdsmi::ListedProcessor& processor, std::vector<std::string>& names) {
  EnergyDevice out;
  for (const auto& [key, value] : amdsmi::ReadFacts(opened_->caller, opened_->library, processor, scratch_)) {
    if (key == "uuid") out.id = value;
    if (key == "name") out.name = value;
    // The runtime names a GPU by its serial number: "GPU-" and sixteen digits.
    if (key == "serial") names.push_back("GPU-" + (value.starts_with("0x") ? value.substr(2) : value));
  }
  if (out.id.empty()) out.id = "gpu" + std::to_string(processor.gpu);
  amdsmi::PowerCapInfo cap{};
  amdsmi::AmdsmiCaller& caller = opened_->caller;
  const int code = caller.Do(caller.fn().PowerCap, processor.handle, 0U, static_cast<void*>(&cap));
  if (code == amdsmi::kSuccess && cap.cap > 0 && !IsSentinel(cap.cap, 64))
    out.most_watts = static_cast<double>(cap.cap) * (cap.cap < 100'000 ? 1 : 1e-6) * kPeakOverLimit;
  out.counter_step_joules = kAmdStepJoules;
  out.counter_lag = kLagUnknown;
  return out;
}

int AmdEnergy::ReadCounter(Board& board, EnergyReading& out) {
  if (!board.counter) return amdsmi::kNotSupported;
  uint64_t count = ~uint64_t{0}, timestamp = 0;
  float resolution = 0;
  amdsmi::AmdsmiCaller& caller = opened_->caller;
  const int code = caller.Do(caller.fn().Energy, board.handle, &count, &resolution, &timestamp);
  if (code == amdsmi::kSuccess && !IsSentinel(count, 64) && count != 0 && resolution > 0)
    out.joules = static_cast<double>(count) * static_cast<double>(resolution) * 1e-6;
  if (AmdSmiHasNone(code)) board.counter = false;
  return code;
}

int AmdEnergy::ReadPower(const Board& board, EnergyReading& out) {
  const amdsmi::StructLayout* layout = opened_->library.layout();
  if (!layout) return amdsmi::kNotSupported;
  std::fill(scratch_.begin(), scratch_.end(), std::byte{0xFF});
  amdsmi::AmdsmiCaller& caller = opened_->caller;
  const int code = caller.Do(caller.fn().PowerInfo, board.handle, static_cast<void*>(scratch_.data()));
  if (code != amdsmi::kSuccess) return code;
  for (const uint16_t place : {layout->power_current, layout->power_average}) {
    uint32_t watts = ~0U;
    if (place != amdsmi::StructLayout::kNone) std::memcpy(&watts, scratch_.data() + place, sizeof watts);
    if (IsSentinel(watts, 32) || IsSentinel(watts, 16) || watts == 0) continue;
    out.watts = watts;
    return code;
  }
  return amdsmi::kNotSupported;
}

void AmdEnergy::ReadSlow(Board& board, EnergyReading& out) {
  amdsmi::AmdsmiCaller& caller = opened_->caller;
  const amdsmi::AmdsmiSymbols& fn = caller.fn();
  const int64_t now_ns = clock_.Now().boot_ns;
  if (board.queried_ns == 0 || now_ns - board.queried_ns >= kSlowNs) {
    board.queried_ns = now_ns;
    board.slow = {};
    amdsmi::EngineUsage use{.gfx = ~0U, .memory = ~0U, .multimedia = ~0U, .reserved = {}};
    if (caller.Do(fn.Activity, board.handle, static_cast<void*>(&use)) == amdsmi::kSuccess && use.gfx <= 100)
      board.slow.utilization_ratio = use.gfx / 100.0;
    uint64_t bytes = ~uint64_t{0};
    if (caller.Do(fn.MemoryUsage, board.handle, uint32_t{amdsmi::kVram}, &bytes) == amdsmi::kSuccess &&
        !IsSentinel(bytes, 64))
      board.slow.memory_used_bytes = static_cast<double>(bytes);
    int64_t celsius = -1;
    if (caller.Do(fn.Temperature, board.handle, uint32_t{amdsmi::kTempHotspot},
                  uint32_t{amdsmi::kTempCurrent}, &celsius) == amdsmi::kSuccess &&
        celsius > 0 && celsius < 200)
      board.slow.temperature_celsius = static_cast<double>(celsius);
  }
  out.utilization_ratio = board.slow.utilization_ratio;
  out.memory_used_bytes = board.slow.memory_used_bytes;
  out.temperature_celsius = board.slow.temperature_celsius;
}

Status AmdEnergy::Read(size_t device, EnergyReading& out) {
  if (device >= boards_.size()) return {gpulens::Code::kUnavailable, "AMD SMI could not be opened again"};
  Board& board = boards_[device];
  const int counter = ReadCounter(board, out);
  const int power = ReadPower(board, out);
  if (counter != amdsmi::kSuccess && power != amdsmi::kSuccess)
    return board.counter ? AmdSmiStatus(counter, "amdsmi_get_energy_count")
                         : AmdSmiStatus(power, "amdsmi_get_power_info");
  ReadSlow(board, out);
  return Ok();
}

}  // namespace gpulens::sdk
