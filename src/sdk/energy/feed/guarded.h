// A call of a source. A source is others' code: nothing that it throws gets past here.
#pragma once

#include <exception>
#include <string>

#include <gpulens/status.h>

namespace gpulens::sdk {

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
