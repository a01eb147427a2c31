// What a GPU is: the facts that do not change while it is attached, read once.
#pragma once

#include <cstdint>
#include <span>

#include "sources/amdsmi/reader/amdsmi_library.h"

namespace gpulens::amdsmi {

// Keys: gpu (its number among the boards) partition partitions uuid name serial pci_bus_id numa_node vbios
// architecture compute_units. A fact the library would not tell is left out. `scratch` is overwritten.
driver::Facts ReadFacts(Caller& caller, const AmdsmiLibrary& library, const Processor& processor,
                        std::span<std::byte> scratch);

// "gfx942" from a number that different versions of the library write as 90402, 942 or 0x942; empty when it
// is none of an architecture that we know.
std::string ArchitectureOf(uint64_t target_version);

}  // namespace gpulens::amdsmi
