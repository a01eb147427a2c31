// Shared by the functions of gpulens/c.h.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <gpulens/export.h>

namespace gpulens::sdk {

// Remembers why it failed, for gpulens_last_error of this thread, and returns the code.
int Reported(const Status& status);
// Starts an exporter and keeps it to the end of the process. `what` names it: twice the same is once.
int Keep(const std::string& what, const std::function<Result<Exporter>()>& start);
// Clamps a timeout to 0 to 1 hour.
std::chrono::nanoseconds TimeoutOf(double seconds) noexcept;

}  // namespace gpulens::sdk
