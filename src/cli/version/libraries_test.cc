#include "cli/version/libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <set>
#include <string>

#include "base/version.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

TEST(LinkedLibraries, EachHasItsOwnNameALicenceAndAWayOfLinking) {
  std::set<std::string> names;
  for (const LinkedLibrary& one : LinkedLibraries()) {
    SCOPED_TRACE(one.name);
    EXPECT_THAT(one.name, Not(testing::EndsWith("-dev")))
        << "a row of docs/dependencies.md without one in libraries.cc";
    EXPECT_TRUE(names.insert(one.name).second);
    EXPECT_FALSE(one.license.empty());
    EXPECT_FALSE(one.linked.empty());
  }
  EXPECT_TRUE(names.contains("OpenSSL"));
  EXPECT_GE(names.size(), 15u);
}

// The version that a library reports and that of its package are two accounts of the same bytes.
TEST(LinkedLibraries, TheVersionsOfALibraryAndOfItsPackageAgree) {
  size_t compared = 0;
  for (const LinkedLibrary& one : LinkedLibraries()) {
    if (one.package_version.empty() || one.version.empty()) continue;
    SCOPED_TRACE(one.name);
    const size_t epoch = one.package_version.find(':');
    EXPECT_THAT(one.package_version.substr(epoch == std::string::npos ? 0 : epoch + 1),
                StartsWith(one.version));
    EXPECT_THAT(one.purl, HasSubstr("/" + (one.package == "libstdc++-12-dev" ? "libstdc" : one.package)));
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "built without Debian's packages";
}

TEST(LinkedLibraries, TheCLibraryIsTheSystemsAndNotOfAPackage) {
  const auto all = LinkedLibraries();
  const auto libc = std::ranges::find(all, "GNU C library", &LinkedLibrary::name);
  ASSERT_NE(libc, all.end());
  EXPECT_THAT(libc->version, MatchesRegex("2\\.[0-9]+"));
  EXPECT_EQ(libc->package, "");
  EXPECT_EQ(libc->linked, "shared");
}

TEST(VersionText, HasALineAndATableOnRequest) {
  const std::string line = VersionText(false, 0);
  EXPECT_THAT(line, StartsWith("gpulens " + std::string(Version()) + " ("));
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  const std::string table = VersionText(true, 0);
  EXPECT_THAT(table, StartsWith(line + "\nLIBRARY"));
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(table, '\n')), LinkedLibraries().size() + 3);
  EXPECT_THAT(table, HasSubstr("BSL-1.0"));
  EXPECT_THAT(VersionText(true, 70), Not(HasSubstr("BSL-1.0")));
}

TEST(VersionJson, HasTheLibrariesOnRequestAndLeavesOutWhatIsNotKnown) {
  EXPECT_THAT(VersionJson(false), StartsWith("{\"schema\":\"gpulens.version/1\",\"version\":\""));
  EXPECT_THAT(VersionJson(false), Not(HasSubstr("libraries")));
  EXPECT_THAT(VersionJson(true), HasSubstr(",\"libraries\":[{\"name\":\"Boost\",\"version\":\"1."));
  EXPECT_THAT(VersionJson(true), HasSubstr("{\"name\":\"GNU C library\",\"version\":\"2."));
  EXPECT_THAT(VersionJson(true), Not(HasSubstr("\"\"")));
}

}  // namespace
}  // namespace gpulens
