#include "sources/amdsmi/probe/amd_probe.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gpulens::amdsmi {
namespace {

class AmdProbeTest : public testing::Test {
 protected:
  AmdProbeTest()
      : root_(std::filesystem::path(testing::TempDir()) /
              ("amd_probe_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    std::filesystem::remove_all(root_);
  }
  ~AmdProbeTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Pci(const std::string& address, const std::string& vendor, const std::string& kind) {
    Write("sys/bus/pci/devices/" + address + "/vendor", vendor + "\n");
    Write("sys/bus/pci/devices/" + address + "/class", kind + "\n");
  }

  std::filesystem::path root_;
};

TEST_F(AmdProbeTest, FindsWhatIsThere) {
  Pci("0000:22:00.0", "0x1002", "0x120000");  // MI300X.
  Pci("0000:0c:00.0", "0x1002", "0x030000");
  Pci("0000:0c:00.1", "0x1002", "0x040300");  // Its sound.
  Pci("0000:1a:00.0", "0x10de", "0x030200");
  Write("sys/module/amdgpu/version", "6.14.14\n");
  Write("dev/dri/renderD128", "");
  Write("dev/dri/renderD129", "");
  Write("sys/class/drm/renderD129/device/vendor", "0x8086\n");
  Write("dev/dri/card0", "");
  Write("dev/kfd", "");
  reader::VendorHardware probe = ProbeGpus(root_.string());
  EXPECT_EQ(probe.pci_gpus, (std::vector<std::string>{"0000:0c:00.0", "0000:22:00.0"}));
  EXPECT_TRUE(probe.kernel_driver);
  EXPECT_EQ(probe.kernel_driver_version, "6.14.14");
  EXPECT_EQ(probe.devices, (std::vector<std::string>{"/dev/dri/renderD128", "/dev/kfd"}));
}

TEST_F(AmdProbeTest, NothingThereIsEmpty) {
  reader::VendorHardware probe = ProbeGpus(root_.string());
  EXPECT_TRUE(probe.pci_gpus.empty());
  EXPECT_FALSE(probe.kernel_driver);
  EXPECT_TRUE(probe.devices.empty());
}

TEST_F(AmdProbeTest, TheGroupOfAClosedDeviceIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may open everything";
  Pci("0000:0c:00.0", "0x1002", "0x030000");
  Write("dev/kfd", "");
  Write("etc/group", "root:x:0:\nrender:x:" + std::to_string(::getegid()) + ":\n");
  ::chmod((root_ / "dev/kfd").c_str(), 0060);
  reader::VendorHardware probe = ProbeGpus(root_.string());
  ASSERT_EQ(probe.unreadable.size(), 1U);
  EXPECT_EQ(probe.unreadable[0].path, "/dev/kfd");
  EXPECT_EQ(probe.unreadable[0].group, "render");
}

}  // namespace
}  // namespace gpulens::amdsmi
