#include "sources/pci_aer/pci_aer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gpulens::pci_aer {
namespace {

namespace fs = std::filesystem;
using ::testing::Optional;

TEST(PciAer, TheTotalOfAFile) {
  constexpr std::string_view kText = "Receiver Error 2\nBad TLP 0\nRELAY_NUM Rollover 1\nTOTAL_ERR_COR 3\n";
  EXPECT_THAT(ParseTotal(kText, AerSeverity::kCorrectable), Optional(uint64_t{3}));
  EXPECT_EQ(ParseTotal(kText, AerSeverity::kFatal), std::nullopt);
  for (std::string_view bad :
       {"", "TOTAL_ERR_COR", "TOTAL_ERR_COR -1\n", "TOTAL_ERR_COR x\n", "TOTAL_ERR_CORE 1\n",
        "TOTAL_ERR_COR 18446744073709551616\n", "TOTAL_ERR_COR 1 2\n"})
    EXPECT_EQ(ParseTotal(bad, AerSeverity::kCorrectable), std::nullopt) << bad;
}

TEST(PciAer, ReadsTheCountersThatADeviceHas) {
  std::string root = testing::TempDir() + "pci_aer_" + std::to_string(::getpid());
  std::string folder = root + "/sys/bus/pci/devices/0000:4d:00.0/";
  fs::create_directories(folder);
  std::ofstream(folder + "aer_dev_correctable") << "Receiver Error 7\nTOTAL_ERR_COR 7\n";
  std::ofstream(folder + "aer_dev_fatal") << "DLP 1\nTOTAL_ERR_FATAL 1\n";
  AerDevice device(root, "0000:4d:00.0");
  auto counts = device.Read();
  EXPECT_THAT(counts[0], Optional(uint64_t{7}));
  EXPECT_EQ(counts[1], std::nullopt) << "not 0";
  EXPECT_THAT(counts[2], Optional(uint64_t{1}));
  AerDevice other(root, "0000:00:01.0");
  for (const auto& count : other.Read()) EXPECT_EQ(count, std::nullopt);
  fs::remove_all(root);
}

}  // namespace
}  // namespace gpulens::pci_aer
