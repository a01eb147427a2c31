// Selects the GPUs that a process may use by the vendors' environment variables.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::sdk {

struct VisibleName {
  std::string uuid;                // "GPU-8932f937-…"
  std::vector<std::string> parts;  // of its MIG devices: "MIG-…"; other names that it has
};

// Numbers into `devices`, each at most once, in the order of the list. `list` is the variable's value:
// numbers, UUIDs or beginnings of UUIDs that only one device has, MIG devices, separated by commas. As the
// vendors' runtimes do it, the first entry that names nothing ends the list. Without a variable: all.
std::vector<size_t> VisibleDevices(std::optional<std::string_view> list,
                                   std::span<const VisibleName> devices);

// The variable, when it is set.
std::optional<std::string_view> Variable(const char* name);

}  // namespace gpulens::sdk
