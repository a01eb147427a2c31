// Calls into sources, which may be a program's own code and throw.
#pragma once

#include <exception>
#include <string>

#include <gpulens/status.h>

namespace gpulens::sdk {

// Calls `call` and turns exceptions into an error.
template <class Call>
Status Guarded(Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return {Code::kIo, std::string("it threw: ") + error.what()};
  } catch (...) {
    return {Code::kIo, "it threw something"};
  }
}

}  // namespace gpulens::sdk
