// Alone in its folder: these headers define macros of short names.
#include "cli/version/libraries.h"

#include <gnu/libc-version.h>
#include <libdeflate.h>
#include <ncursesw/curses.h>
#include <nghttp2/nghttp2.h>
#include <openssl/crypto.h>
#include <snappy-stubs-public.h>
#include <sqlite3.h>
#include <zstd.h>
#include <CLI/Version.hpp>
#include <boost/version.hpp>
#include <protozero/version.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/version.h"
#include "cli/common/output.h"

namespace gpulens {
namespace {

struct BuiltFrom {
  std::string_view row;  // the name in docs/dependencies.md, which may be that of another release of Debian
  std::string_view package, package_version, upstream, license, linked, purl;
};

constexpr BuiltFrom kBuiltFrom[] = {
#include "cli/version/library_rows.inc"
};

// What a library calls itself, and how it reports its version: by a function where it has one, else by its
// header. Without either the version of its package is taken.
struct Library {
  std::string_view row, name;
  std::string (*version)();
};

std::string Numbers(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

// "ncurses 6.4.20221231": the number of a patch follows.
std::string FirstTwoNumbers(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  const size_t point = text.find('.');
  return std::string(text.substr(0, point == text.npos ? point : text.find('.', point + 1)));
}

#ifdef __clang__
constexpr std::string (*kGccVersion)() = nullptr;
#else
constexpr auto kGccVersion = +[] { return std::string(__VERSION__); };
#endif

constexpr Library kLibraries[] = {
    {"libboost1.81-dev", "Boost",
     [] { return Numbers(BOOST_VERSION / 100'000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100); }},
    {"libssl-dev", "OpenSSL", [] { return std::string(::OpenSSL_version(OPENSSL_VERSION_STRING)); }},
    {"libyaml-cpp-dev", "yaml-cpp", nullptr},
    {"libcli11-dev", "CLI11", [] { return std::string(CLI11_VERSION); }},
    {"libdeflate-dev", "libdeflate", [] { return std::string(LIBDEFLATE_VERSION_STRING); }},
    {"libzstd-dev", "Zstandard", [] { return std::string(::ZSTD_versionString()); }},
    {"libnghttp2-dev", "nghttp2", [] { return std::string(::nghttp2_version(0)->version_str); }},
    {"libprotozero-dev", "protozero", [] { return std::string(PROTOZERO_VERSION_STRING); }},
    {"libsnappy-dev", "Snappy", [] { return Numbers(SNAPPY_MAJOR, SNAPPY_MINOR, SNAPPY_PATCHLEVEL); }},
    {"libsqlite3-dev", "SQLite", [] { return std::string(::sqlite3_libversion()); }},
    {"libncurses-dev", "ncurses", [] { return FirstTwoNumbers(::curses_version()); }},
    {"libjs-dygraphs", "dygraphs", nullptr},
    {"libbpf-dev", "libbpf", nullptr},
    {"zlib1g-dev", "zlib", nullptr},
    {"libstdc++", "libstdc++", kGccVersion},
    {"libgcc", "libgcc", kGccVersion},
    {"libc", "GNU C library", [] { return std::string(::gnu_get_libc_version()); }},
};

LinkedLibrary Described(const BuiltFrom& built) {
  LinkedLibrary out{std::string(built.row),     std::string(built.upstream),
                    std::string(built.package), std::string(built.package_version),
                    std::string(built.license), std::string(built.linked),
                    std::string(built.purl)};
  const auto* library = std::ranges::find(kLibraries, built.row, &Library::row);
  if (library == std::end(kLibraries)) return out;
  out.name = library->name;
  if (library->version) out.version = library->version();
  return out;
}

void AppendMember(std::string& out, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  if (out.back() != '{') out += ',';
  AppendJsonString(out, key);
  out += ':';
  AppendJsonString(out, value);
}

std::string OrNone(const std::string& text) { return text.empty() ? kNoValue : text; }

}  // namespace

std::vector<LinkedLibrary> LinkedLibraries() {
  std::vector<LinkedLibrary> out;
  for (const BuiltFrom& built : kBuiltFrom) out.push_back(Described(built));
  return out;
}

std::string VersionText(bool libraries, size_t width) {
  std::string out = "gpulens ";
  out.append(Version()).append(" (").append(Revision()).append("), ");
  out.append(Compiler()).append(", ").append(BuildType()).append(" build\n");
  if (!libraries) return out;
  TextTable table({"LIBRARY", "VERSION", "PACKAGE", "ITS VERSION", "LICENCE", "LINKED"});
  for (const LinkedLibrary& one : LinkedLibraries())
    table.Add({one.name, OrNone(one.version), OrNone(one.package), OrNone(one.package_version), one.license,
               one.linked});
  return out + "\n" + table.Text(width);
}

std::string VersionJson(bool libraries) {
  std::string out = "{";
  AppendMember(out, "schema", "gpulens.version/1");
  AppendMember(out, "version", Version());
  AppendMember(out, "revision", Revision());
  AppendMember(out, "compiler", Compiler());
  AppendMember(out, "build", BuildType());
  if (libraries) {
    out += ",\"libraries\":[";
    for (const LinkedLibrary& one : LinkedLibraries()) {
      out += out.back() == '[' ? "{" : ",{";
      AppendMember(out, "name", one.name);
      AppendMember(out, "version", one.version);
      AppendMember(out, "package", one.package);
      AppendMember(out, "package_version", one.package_version);
      AppendMember(out, "license", one.license);
      AppendMember(out, "linked", one.linked);
      AppendMember(out, "purl", one.purl);
      out += '}';
    }
    out += ']';
  }
  return out + "}\n";
}

}  // namespace gpulens
