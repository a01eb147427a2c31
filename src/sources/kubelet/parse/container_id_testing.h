// Ids of containers as their runtimes make them: for tests.
#pragma once

#include <string>

namespace gpulens::kubelet {

inline std::string ContainerId(char digit) { return std::string(64, digit); }

}  // namespace gpulens::kubelet
