// Shared by the functions of gpulens/c.h.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <gpulens/export.h>

namespace gpulens::sdk {

// Keeps the error for gpulens_last_error of this thread, and returns the code.
int Reported(const Status& status);
// Starts an exporter that runs until the end of the process; a second one of the same name is not started.
int Keep(const std::string& what, const std::function<Result<Exporter>()>& start);
// Clamps a timeout to 0 to 1 hour.
std::chrono::nanoseconds TimeoutOf(double seconds) noexcept;

}  // namespace gpulens::sdk
