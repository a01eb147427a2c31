#include "delivery/log_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpulens {
namespace {

constexpr BootId kBoot{'b', 'o', 'o', 't'};

class PositionFileTest : public ::testing::Test {
 protected:
  PositionFileTest() {
    std::string pattern = ::testing::TempDir() + "/position_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
    folder_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ~PositionFileTest() override { std::filesystem::remove_all(path_); }

  PositionFile Open() {
    auto file = PositionFile::Open(folder_.get(), kPositionName, kBoot);
    EXPECT_TRUE(file.ok());
    return *std::move(file);
  }
  std::string Read() const {
    std::ostringstream text;
    text << std::ifstream(path_ + "/" + kPositionName).rdbuf();
    return text.str();
  }
  void Write(const std::string& bytes) const { std::ofstream(path_ + "/" + kPositionName) << bytes; }

  std::string path_;
  UniqueFd folder_;
};

TEST_F(PositionFileTest, KeepsTheNumberAndWhatIsDoneBehindIt) {
  EXPECT_FALSE(Open().last());
  EXPECT_FALSE(Open().foreign());
  for (uint64_t n = 1; n < 20; ++n) {
    ASSERT_TRUE(Open().Write(n / 2, n * n).ok());  // the same number, and more done behind it
    EXPECT_EQ(Open().last(), n / 2);
    EXPECT_EQ(Open().done(), n * n);
    EXPECT_TRUE(Open().of_this_boot());
  }
  EXPECT_EQ(Read().size(), 512u + 60) << "one sector each";
}

// The beginning of a slot is of a new write, the rest of the one before it: what was done behind the old
// number is not done behind the new one.
TEST_F(PositionFileTest, ATornWriteMarksNoRecordDone) {
  PositionFile file = Open();
  ASSERT_TRUE(file.Write(10, 0xff).ok());
  ASSERT_TRUE(file.Write(11, 1).ok());
  const std::string before = Read();
  ASSERT_TRUE(file.Write(30, 1).ok());
  const std::string after = Read();
  for (size_t cut = 0; cut <= 60; ++cut) {
    Write(after.substr(0, cut) + before.substr(cut));
    const PositionFile torn = Open();
    if (torn.last() == 11) {
      EXPECT_EQ(torn.done(), 1u) << cut;
    } else {
      EXPECT_EQ(torn.last(), 30u) << cut;
      EXPECT_LE(torn.done(), 1u) << cut;
    }
    EXPECT_FALSE(torn.foreign()) << cut;
  }
}

TEST_F(PositionFileTest, ReadsTheFormOfEarlierVersions) {
  ASSERT_TRUE(Open().Write(7, 5).ok());
  for (const size_t size : {size_t{24}, size_t{44}}) {
    const std::string whole = Read();
    Write(whole.substr(0, size));
    EXPECT_EQ(Open().last(), 7u);
    EXPECT_EQ(Open().done(), 0u);
    EXPECT_EQ(Open().of_this_boot(), size == 44);
    Write(whole);
  }
  Write("GPLNSPO7" + Read().substr(8));
  EXPECT_TRUE(Open().foreign());
  EXPECT_FALSE(Open().last());
}

}  // namespace
}  // namespace gpulens
