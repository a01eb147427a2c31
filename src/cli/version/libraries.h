// The libraries whose code is in this program, and the C library that it started with: `gpulens version
// --libraries`. The rows are those of docs/dependencies.md, with the packages that were installed when it was
// built (tools/sbom.py).
#pragma once

#include <string>
#include <vector>

namespace gpulens {

struct LinkedLibrary {
  std::string name;     // "OpenSSL"
  std::string version;  // as the library itself reports it, else of its package; empty: not known
  std::string package;  // of Debian: "libssl-dev"; empty: the system's own, which is not part of the program
  std::string package_version;  // "3.0.17-1~deb12u2"; empty: not built from a package
  std::string license;          // an SPDX expression
  std::string linked;           // "static", "headers only", "a file", "shared"
  std::string
      purl;  // "pkg:deb/debian/libssl-dev@…", by which lists of weaknesses name it; empty as package_version
};

// In the order of docs/dependencies.md. Safe from any thread.
std::vector<LinkedLibrary> LinkedLibraries();

// The line of `gpulens version`; with `libraries` their table, too, in lines of at most `width` columns, 0:
// any.
std::string VersionText(bool libraries, size_t width);
// The same as gpulens.version/1, with `libraries` as the member of that name.
std::string VersionJson(bool libraries);

}  // namespace gpulens
