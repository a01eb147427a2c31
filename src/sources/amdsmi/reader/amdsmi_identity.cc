#include "sources/amdsmi/reader/amdsmi_identity.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace gpulens::amdsmi {
namespace {

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
  FactReader(Caller& caller, const AmdsmiLibrary& library, Handle handle, std::span<std::byte> scratch)
      : caller_(caller), library_(library), handle_(handle), scratch_(scratch) {}

  driver::Facts facts;

  bool Fill(Call call, int (*function)(Handle, void*)) {
    std::fill(scratch_.begin(), scratch_.end(), std::byte{0});
    return library_.layout() &&
           caller_.Do(call, function, handle_, static_cast<void*>(scratch_.data())) == kSuccess;
  }

  std::string Text(Layout::Text place) const {
    if (place.offset == Layout::kNone) return {};
    const char* text = reinterpret_cast<const char*>(scratch_.data()) + place.offset;
    std::string_view view(text, ::strnlen(text, place.size));
    while (!view.empty() && view.back() == ' ') view.remove_suffix(1);
    return view == "N/A" ? std::string() : std::string(view);
  }

  void Add(const char* key, std::string value) {
    if (!value.empty()) facts.emplace_back(key, std::move(value));
  }

 private:
  Caller& caller_;
  const AmdsmiLibrary& library_;
  Handle handle_;
  std::span<std::byte> scratch_;
};

// As sysfs spells it: "0000:c1:00.0".
std::string BusId(uint64_t bdf) {
  if (bdf == 0) return {};
  char text[40];
  std::snprintf(text, sizeof text, "%04llx:%02x:%02x.%x", static_cast<unsigned long long>(bdf >> 16),
                static_cast<unsigned>(bdf >> 8 & 0xFF), static_cast<unsigned>(bdf >> 3 & 0x1F),
                static_cast<unsigned>(bdf & 7));
  return text;
}

}  // namespace

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

driver::Facts ReadFacts(Caller& caller, const AmdsmiLibrary& library, const Processor& processor,
                        std::span<std::byte> scratch) {
  const Symbols& fn = caller.fn();
  const Layout* layout = library.layout();
  FactReader in(caller, library, processor.handle, scratch);
  in.Add("gpu", std::to_string(processor.gpu));
  in.Add("partitions", std::to_string(processor.partitions));
  uint32_t partition = processor.partition;
  if (processor.partitions > 1 && in.Fill(Call::kKfdInfo, fn.KfdInfo)) {
    uint32_t told = At<KfdInfo>(scratch, 0).partition_id;
    if (told < driver::kMaxDevices) partition = told;
  }
  in.Add("partition", std::to_string(partition));
  std::array<char, 64> uuid{};
  uint32_t size = uuid.size();
  if (caller.Do(Call::kUuid, fn.Uuid, processor.handle, &size, uuid.data()) == kSuccess) {
    in.Add("uuid", std::string(uuid.data(), ::strnlen(uuid.data(), uuid.size())));
  }
  std::string serial;
  if (in.Fill(Call::kAsicInfo, fn.AsicInfo)) {
    in.Add("name", in.Text(layout->asic_name));
    serial = in.Text(layout->asic_serial);
    if (layout->compute_units != Layout::kNone) {
      auto units = At<uint32_t>(scratch, layout->compute_units);
      if (units > 0 && units < 4096) in.Add("compute_units", std::to_string(units));
      in.Add("architecture", ArchitectureOf(At<uint64_t>(scratch, layout->target_version)));
    }
  }
  if (in.Fill(Call::kBoardInfo, fn.BoardInfo)) {
    if (std::string product = in.Text(layout->board_serial); !product.empty()) serial = product;
    bool named =
        std::any_of(in.facts.begin(), in.facts.end(), [](const auto& fact) { return fact.first == "name"; });
    if (!named) in.Add("name", in.Text(layout->board_name));
  }
  in.Add("serial", serial);
  in.Add("pci_bus_id", BusId(processor.bdf));
  int32_t node = -1;
  if (caller.Do(Call::kNumaNode, fn.NumaNode, processor.handle, &node) == kSuccess && node >= 0 &&
      node < 4096) {
    in.Add("numa_node", std::to_string(node));
  }
  if (in.Fill(Call::kVbiosInfo, fn.VbiosInfo)) in.Add("vbios", in.Text(layout->vbios_version));
  return std::move(in.facts);
}

}  // namespace gpulens::amdsmi
