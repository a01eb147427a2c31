// What a program prints when an exception ends it. A process that keeps secrets leaves no core.
#pragma once

namespace gpulens {

// For std::set_terminate: prints the exception that nothing catches, and the places of the calls that led to
// it as offsets in the file of the program, for addr2line -e; then aborts.
[[noreturn]] void PrintStackAndAbort() noexcept;

}  // namespace gpulens
