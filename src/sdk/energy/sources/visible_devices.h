// Selects the GPUs that a process may use by the vendors' environment variables.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::sdk {

// Names by which the variables may refer to a GPU.
struct VisibleName {
  std::string uuid;                // "GPU-8932f937-…"
  std::vector<std::string> parts;  // its MIG devices, "MIG-…", and other names
};

// Returns indexes of `devices`, each at most once, in the order of the list. `list` is the variable's value:
// indexes, UUIDs or unique prefixes of UUIDs, and MIG devices, separated by commas. As in the vendors'
// runtimes, the first entry that matches no device ends the list. Returns all devices if the variable is
// unset.
std::vector<size_t> VisibleDevices(std::optional<std::string_view> list,
                                   std::span<const VisibleName> devices);

// Returns the value of an environment variable, or nothing.
std::optional<std::string_view> Variable(const char* name);

}  // namespace gpulens::sdk
