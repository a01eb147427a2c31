// The C library's variable, for archives whose code cannot use it from within a shared object: see
// CMakeLists.txt.
#include <cstdio>

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): C has no namespaces.
extern std::FILE* gpulens_stderr;
std::FILE* gpulens_stderr = stderr;
// NOLINTEND(readability-identifier-naming)
}
