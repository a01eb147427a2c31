#include "sources/amdsmi/reader/amdsmi_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "base/process.h"
#include "base/result.h"
#include "reader/process/reader_loop.h"
#include "sources/amdsmi/amdsmi_fields.h"
#include "sources/amdsmi/reader/amdsmi_reader.h"

namespace gpulens::amdsmi {
namespace {

// ROCm 6.1 and 6.2: texts of 32, 64 and 256 bytes.
constexpr StructLayout kEarly = {
    .asic_name = {0, 256},
    .asic_serial = {340, 32},
    .board_serial = {256, 32},
    .board_name = {320, 256},
    .vbios_version = {160, 32},
    .driver_version = {0, 64},
    .power_current = 0,
    .power_average = 4,
    .process =
        {.stride = 224, .name_size = 32, .pid = 32, .graphics = 48, .encode = 56, .host = 112, .memory = 128},
};

// ROCm 6.3. Its process struct changed on the way and is not certain: it is not read.
constexpr StructLayout kMiddle = [] {
  StructLayout layout = kEarly;
  layout.compute_units = 376;
  layout.target_version = 384;
  layout.process = {};
  return layout;
}();

// ROCm 6.4: all texts but dates have 256 bytes.
constexpr StructLayout kLate = {
    .asic_name = {0, 256},
    .asic_serial = {532, 256},
    .board_serial = {256, 256},
    .board_name = {768, 256},
    .vbios_version = {544, 256},
    .driver_version = {0, 256},
    .compute_units = 792,
    .target_version = 800,
    .power_current = 8,
    .power_average = 12,
    .process = {.stride = 704,
                .name_size = 256,
                .pid = 256,
                .graphics = 272,
                .encode = 280,
                .host = 336,
                .memory = 352},
    .residency = true,
};

// ROCm 7: dates, too; processes report the compute units they hold.
constexpr StructLayout kSeven = [] {
  StructLayout layout = kLate;
  layout.vbios_version = {768, 256};
  layout.process.compute_units = 656;
  return layout;
}();

// Known instruction sets, as LLVM names them.
constexpr std::string_view kTargets[] = {"900",  "904",  "906",  "908",  "909",  "90a",  "90c",  "940",
                                         "941",  "942",  "950",  "1010", "1011", "1012", "1030", "1031",
                                         "1032", "1033", "1034", "1035", "1036", "1100", "1101", "1102",
                                         "1103", "1150", "1151", "1152", "1153", "1200", "1201"};

template <class Number>
Number At(std::span<const std::byte> bytes, size_t offset) noexcept {
  Number value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

class FactReader {
 public:
  FactReader(AmdsmiCaller& caller, const AmdsmiLibrary& library, Handle handle, std::span<std::byte> scratch)
      : caller_(caller), library_(library), handle_(handle), scratch_(scratch) {}

  reader::DeviceFacts facts;

  template <class Function>
  bool Fill(const Function& function) {
    std::fill(scratch_.begin(), scratch_.end(), std::byte{0});
    return library_.layout() &&
           caller_.Do(function, handle_, static_cast<void*>(scratch_.data())) == kSuccess;
  }

  std::string Text(StructLayout::Text place) const {
    if (place.offset == StructLayout::kNone) return {};
    const char* text = reinterpret_cast<const char*>(scratch_.data()) + place.offset;
    std::string_view view(text, ::strnlen(text, place.size));
    while (!view.empty() && view.back() == ' ') view.remove_suffix(1);
    return view == "N/A" ? std::string() : std::string(view);
  }

  void Add(const char* key, std::string value) {
    if (!value.empty()) facts.emplace_back(key, std::move(value));
  }

 private:
  AmdsmiCaller& caller_;
  const AmdsmiLibrary& library_;
  Handle handle_;
  std::span<std::byte> scratch_;
};

// In the form of sysfs: "0000:c1:00.0".
std::string BusId(uint64_t bdf) {
  if (bdf == 0) return {};
  char text[40];
  std::snprintf(text, sizeof text, "%04llx:%02x:%02x.%x", static_cast<unsigned long long>(bdf >> 16),
                static_cast<unsigned>(bdf >> 8 & 0xFF), static_cast<unsigned>(bdf >> 3 & 0x1F),
                static_cast<unsigned>(bdf & 7));
  return text;
}

using reader::ReaderFault;

constexpr uint32_t kMaxSockets = 64;

template <class Lookup>
void Fill(AmdsmiSymbols& symbols, Lookup lookup){
#define GPULENS_AMDSMI_ASSIGN(id, symbol, parameters) symbols.id.Assign(lookup(#symbol));
    GPULENS_AMDSMI_CALLS(GPULENS_AMDSMI_ASSIGN)
#undef GPULENS_AMDSMI_ASSIGN
}

reader::VendorLibrary::Opened Failed(ReaderFault fault, int code, std::string detail) {
  reader::VendorLibrary::Opened out;
  out.fault = fault;
  out.code = code;
  out.detail = std::move(detail);
  return out;
}

reader::VendorLibrary::Opened FailedCall(int code, std::string_view call) {
  std::string text = std::string(call) + ": " + std::string(ReturnText(code));
  switch (code) {
    case kNoPermission:
      return Failed(ReaderFault::kNoPermission, code,
                    "no permission to read the GPUs (" + text +
                        "): add this user to the groups render and video, or run as root");
    case kDriverNotLoaded:
      return Failed(ReaderFault::kDriverNotLoaded, code,
                    "the amdgpu kernel driver is not loaded: modprobe amdgpu, or look for its reason in the "
                    "kernel log");
    default:
      return Failed(ReaderFault::kLibraryError, code,
                    "the AMD SMI library failed with code " + std::to_string(code) + ": " + text);
  }
}

}  // namespace

std::string AmdsmiVersion::Text() const {
  if (major == 0) return {};
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

AmdsmiVersion VersionFrom(const uint32_t (&words)[4]) noexcept {
  auto plausible = [](uint32_t major) { return major >= 20 && major < 1000; };
  // {year, major, minor, release}, where the major of 6.4 is what had been the year.
  if ((words[0] == 0 || plausible(words[0])) && plausible(words[1])) return {words[1], words[2], words[3]};
  if (plausible(words[0])) return {words[0], words[1], words[2]};
  return {};
}

const StructLayout* LayoutOf(const AmdsmiVersion& version) noexcept {
  if (version.major == 24 && (version.minor == 5 || version.minor == 6)) return &kEarly;
  if (version.major == 24 && version.minor == 7) return &kMiddle;
  if (version.major == 25) return &kLate;
  if (version.major == 26) return &kSeven;
  return nullptr;
}

std::string ArchitectureOf(uint64_t target_version) {
  auto known = [](const char* text) {
    return std::find(std::begin(kTargets), std::end(kTargets), text) != std::end(kTargets);
  };
  if (target_version > 1'000'000) return {};
  auto number = static_cast<unsigned>(target_version);
  char text[24];
  if (number >= 10'000) {
    std::snprintf(text, sizeof text, "%u%u%x", number / 10'000, number / 100 % 100, number % 100);
    return known(text) ? "gfx" + std::string(text) : "";
  }
  std::snprintf(text, sizeof text, "%u", number);
  if (!known(text)) std::snprintf(text, sizeof text, "%x", number);
  return known(text) ? "gfx" + std::string(text) : "";
}

reader::DeviceFacts ReadFacts(AmdsmiCaller& caller, const AmdsmiLibrary& library,
                              const ListedProcessor& processor, std::span<std::byte> scratch) {
  const AmdsmiSymbols& fn = caller.fn();
  const StructLayout* layout = library.layout();
  FactReader in(caller, library, processor.handle, scratch);
  in.Add("gpu", std::to_string(processor.gpu));
  in.Add("partitions", std::to_string(processor.partitions));
  uint32_t partition = processor.partition;
  if (processor.partitions > 1 && in.Fill(fn.KfdInfo)) {
    uint32_t reported = At<KfdInfo>(scratch, 0).partition_id;
    if (reported < reader::kMaxDevices) partition = reported;
  }
  in.Add("partition", std::to_string(partition));
  std::array<char, 64> uuid{};
  uint32_t size = uuid.size();
  if (caller.Do(fn.Uuid, processor.handle, &size, uuid.data()) == kSuccess) {
    in.Add("uuid", std::string(uuid.data(), ::strnlen(uuid.data(), uuid.size())));
  }
  std::string serial;
  if (in.Fill(fn.AsicInfo)) {
    in.Add("name", in.Text(layout->asic_name));
    serial = in.Text(layout->asic_serial);
    if (layout->compute_units != StructLayout::kNone) {
      auto units = At<uint32_t>(scratch, layout->compute_units);
      if (units > 0 && units < 4096) in.Add("compute_units", std::to_string(units));
      in.Add("architecture", ArchitectureOf(At<uint64_t>(scratch, layout->target_version)));
    }
  }
  if (in.Fill(fn.BoardInfo)) {
    if (std::string product = in.Text(layout->board_serial); !product.empty()) serial = product;
    bool named =
        std::any_of(in.facts.begin(), in.facts.end(), [](const auto& fact) { return fact.first == "name"; });
    if (!named) in.Add("name", in.Text(layout->board_name));
  }
  in.Add("serial", serial);
  in.Add("pci_bus_id", BusId(processor.bdf));
  int32_t node = -1;
  if (caller.Do(fn.NumaNode, processor.handle, &node) == kSuccess && node >= 0 && node < 4096) {
    in.Add("numa_node", std::to_string(node));
  }
  if (in.Fill(fn.VbiosInfo)) in.Add("vbios", in.Text(layout->vbios_version));
  return std::move(in.facts);
}

const std::vector<std::string>& AmdsmiLibrary::DefaultPaths() {
  // After the loader's own search: where ROCm, its containers and operators put the library.
  static const std::vector<std::string> paths = {
      "libamd_smi.so.26",
      "libamd_smi.so.25",
      "libamd_smi.so.24",
      "libamd_smi.so",
      "/opt/rocm/lib/libamd_smi.so",
      "/opt/rocm/lib64/libamd_smi.so",
      "/opt/amdgpu/lib/libamd_smi.so",
      "/run/opengl-driver/lib/libamd_smi.so",
  };
  return paths;
}

Status AmdsmiLibrary::Load() {
  if (lookup_) {
    path_ = "simulated library";
    Fill(symbols_, lookup_);
    return Complete();
  }
  ASSIGN_OR_RETURN(SharedLibrary opened,
                   OpenSharedLibrary(path_.empty() ? DefaultPaths() : std::vector<std::string>{path_}));
  path_ = std::move(opened.path);
  Fill(symbols_, [&](const char* name) { return ::dlsym(opened.handle, name); });
  return Complete();
}

Status AmdsmiLibrary::Complete() const {
  if (symbols_.Init && symbols_.SocketHandles && symbols_.ProcessorHandles) return Ok();
  return {Code::kDataLoss,
          path_ +
              " is not an AMD SMI library: it lacks amdsmi_init, amdsmi_get_socket_handles or "
              "amdsmi_get_processor_handles"};
}

reader::VendorLibrary::Opened AmdsmiLibrary::Open(reader::CallSlot& slot) {
  reader::CallGate gate(slot, RealClock());
  gate.Begin(static_cast<reader::CallNumber>(Call::kLoadLibrary));
  Status loaded = Load();
  gate.End();
  if (!loaded) {
    bool denied = loaded.code == Code::kPermissionDenied;
    Opened out =
        Failed(denied ? ReaderFault::kNoPermission : ReaderFault::kLibraryNotFound, 0, loaded.detail);
    out.path = path_;
    return out;
  }
  AmdsmiCaller caller(*this, slot, RealClock());
  Opened out;
  if (int code = caller.Do(symbols_.Init, kInitGpus); code != kSuccess) {
    out = FailedCall(code, "amdsmi_init");
  } else if (code = Enumerate(caller); code != kSuccess) {
    out = FailedCall(code, "listing the GPUs");
  }
  out.path = path_;
  alignas(8) uint32_t words[16] = {};  // Room for the pointer behind the numbers, and for more to come.
  if (caller.Do(symbols_.LibVersion, static_cast<void*>(words)) == kSuccess) {
    version_ = VersionFrom({words[0], words[1], words[2], words[3]});
  }
  layout_ = LayoutOf(version_);
  out.library_version = version_.Text();
  if (out.fault != ReaderFault::kNone) return out;
  out.devices = static_cast<uint32_t>(processors_.size());
  if (layout_ && !processors_.empty()) {
    std::array<char, kScratchBytes> info{};
    if (caller.Do(symbols_.DriverInfo, processors_.front().handle, static_cast<void*>(info.data())) ==
        kSuccess) {
      const char* text = info.data() + layout_->driver_version.offset;
      out.driver_version.assign(text, ::strnlen(text, layout_->driver_version.size));
    }
  }
  return out;
}

int AmdsmiLibrary::Enumerate(AmdsmiCaller& caller) {
  uint32_t sockets = 0;
  int code = caller.Do(symbols_.SocketHandles, &sockets, static_cast<Handle*>(nullptr));
  if (code != kSuccess) return code;
  std::vector<Handle> list(std::min(sockets, kMaxSockets), nullptr);
  sockets = static_cast<uint32_t>(list.size());
  if (sockets == 0) return kSuccess;
  code = caller.Do(symbols_.SocketHandles, &sockets, list.data());
  if (code != kSuccess) return code;
  list.resize(std::min<size_t>(list.size(), sockets));
  for (Handle socket : list) {
    std::array<Handle, reader::kMaxDevices> processors{};
    auto count = static_cast<uint32_t>(processors.size());
    code = caller.Do(symbols_.ProcessorHandles, socket, &count, processors.data());
    if (code != kSuccess) return code;
    count = std::min(count, static_cast<uint32_t>(processors.size()));
    for (uint32_t i = 0; i < count && processors_.size() < reader::kMaxDevices; ++i) {
      uint32_t type = kTypeGpu;
      bool reported = caller.Do(symbols_.ProcessorType, processors[i], &type) == kSuccess;
      if (!processors[i] || (reported && type != kTypeGpu && type != kTypeApu)) continue;
      ListedProcessor& processor = processors_.emplace_back();
      processor.handle = processors[i];
      if (caller.Do(symbols_.Bdf, processors[i], &processor.bdf) != kSuccess) processor.bdf = 0;
    }
  }
  NumberBoards();
  return kSuccess;
}

// Partitions of a GPU differ in the function of their PCI address alone.
void AmdsmiLibrary::NumberBoards() {
  uint32_t boards = 0;
  for (size_t i = 0; i < processors_.size(); ++i) {
    ListedProcessor& processor = processors_[i];
    auto same = [&](const ListedProcessor& other) { return other.bdf >> 3 == processor.bdf >> 3; };
    auto here = processors_.begin() + static_cast<std::ptrdiff_t>(i);
    auto first = processor.bdf == 0 ? here : std::find_if(processors_.begin(), here, same);
    processor.gpu = first == here ? boards++ : first->gpu;
    processor.partition = first == here ? 0 : static_cast<uint32_t>(std::count_if(first, here, same));
  }
  for (ListedProcessor& processor : processors_) {
    auto same = [&](const ListedProcessor& other) { return other.gpu == processor.gpu; };
    processor.partitions = static_cast<uint32_t>(std::count_if(processors_.begin(), processors_.end(), same));
  }
}

std::unique_ptr<reader::DeviceReader> AmdsmiLibrary::MakeReader(uint32_t index, reader::CallSlot& slot,
                                                                const Clock& clock,
                                                                const reader::TierClock::Periods& periods) {
  return std::make_unique<AmdsmiReader>(*this, index, slot, clock, periods);
}

int RunAmdsmiReader(std::span<const std::string_view> arguments, SymbolLookup simulated) {
  Result<reader::ReaderProcessOptions> options = reader::ParseReaderArguments(arguments);
  if (!options) return reader::kReaderBadStart;
  // The library lists its GPUs at its start alone; the kernel's driver has a link for each that it holds.
  if (options->device_folder.empty()) options->device_folder = "/sys/bus/pci/drivers/amdgpu";
  return reader::RunReader(*options, std::make_shared<AmdsmiLibrary>(options->library_path, simulated));
}

}  // namespace gpulens::amdsmi
