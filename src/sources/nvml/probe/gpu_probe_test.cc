#include "sources/nvml/probe/gpu_probe.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace gpulens::nvml {
namespace {

class GpuProbeTest : public testing::Test {
 protected:
  GpuProbeTest()
      : root_(std::filesystem::path(testing::TempDir()) /
              ("probe_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    std::filesystem::remove_all(root_);
  }
  ~GpuProbeTest() override { std::filesystem::remove_all(root_); }

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

TEST_F(GpuProbeTest, FindsWhatIsThere) {
  Pci("0000:4a:00.0", "0x10de", "0x030200");
  Pci("0000:1a:00.0", "0x10de", "0x030000");
  Pci("0000:05:00.0", "0x10de", "0x068000");  // An NVSwitch.
  Pci("0000:06:00.0", "0x1002", "0x030200");
  Write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x)\nGCC "
        "version: 12.2.0\n");
  Write("dev/nvidia0", "");
  Write("dev/nvidiactl", "");
  Write("dev/nvidia-uvm", "");
  Write("dev/nvidia-modeset-not", "");
  Write("dev/null2", "");
  reader::VendorHardware probe = ProbeGpus(root_.string());
  EXPECT_EQ(probe.pci_gpus, (std::vector<std::string>{"0000:1a:00.0", "0000:4a:00.0"}));
  EXPECT_TRUE(probe.kernel_driver);
  EXPECT_EQ(probe.kernel_driver_version, "580.95.05");
  EXPECT_EQ(probe.devices, (std::vector<std::string>{"/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"}));
}

TEST_F(GpuProbeTest, TheLibraryOnDiskMayBeNewerThanTheLoadedDriver) {
  Write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue\n");
  std::filesystem::create_directories(root_ / "usr/lib64");
  auto link = [&](const char* target) {
    std::filesystem::remove(root_ / "usr/lib64/libnvidia-ml.so.1");
    std::filesystem::create_symlink(target, root_ / "usr/lib64/libnvidia-ml.so.1");
    return ProbeGpus(root_.string());
  };
  EXPECT_FALSE(ProbeGpus(root_.string()).Mismatch()) << "no library";
  EXPECT_FALSE(link("libnvidia-ml.so.580.95.05").Mismatch());
  EXPECT_TRUE(link("/opt/nvidia/libnvidia-ml.so.580.105.08").Mismatch());
  EXPECT_EQ(link("libnvidia-ml.so.580.105.08").library_version, "580.105.08");
  for (const char* odd : {"libnvidia-ml.so.1", "elsewhere", "libnvidia-ml.so.580x", "libnvidia-ml.so."})
    EXPECT_FALSE(link(odd).Mismatch()) << odd;
}

TEST_F(GpuProbeTest, NothingThereIsEmpty) {
  reader::VendorHardware probe = ProbeGpus(root_.string());
  EXPECT_TRUE(probe.pci_gpus.empty());
  EXPECT_FALSE(probe.kernel_driver);
  EXPECT_TRUE(probe.kernel_driver_version.empty());
  EXPECT_TRUE(probe.devices.empty());
}

TEST_F(GpuProbeTest, FindsGpusThatAreOnNoBus) {
  EXPECT_FALSE(MayHaveGpus(ProbeGpus(root_.string())));
  Write("dev/dxg", "");
  EXPECT_EQ(ProbeGpus(root_.string()).platform, "") << "Windows has no NVIDIA driver";
  EXPECT_FALSE(MayHaveGpus(ProbeGpus(root_.string())));
  Write("usr/lib/wsl/lib/libnvidia-ml.so.1", "");
  EXPECT_EQ(ProbeGpus(root_.string()).platform, "WSL");
  EXPECT_TRUE(MayHaveGpus(ProbeGpus(root_.string())));
}

TEST_F(GpuProbeTest, AJetsonIsKnownByItsDeviceTree) {
  Write("proc/device-tree/compatible", std::string("raspberrypi,4-model-b\0brcm,bcm2711\0", 36));
  EXPECT_FALSE(MayHaveGpus(ProbeGpus(root_.string())));
  Write("proc/device-tree/compatible", std::string("nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0", 46));
  EXPECT_EQ(ProbeGpus(root_.string()).platform, "Jetson");
  EXPECT_TRUE(MayHaveGpus(ProbeGpus(root_.string())));
}

TEST_F(GpuProbeTest, AContainerWhoseBusIsHiddenHasItsDeviceFiles) {
  Write("dev/nvidiactl", "");
  Write("dev/nvidia0", "");
  reader::VendorHardware probe = ProbeGpus(root_.string());
  EXPECT_TRUE(probe.pci_hidden && probe.pci_gpus.empty());
  EXPECT_TRUE(MayHaveGpus(probe));
  Pci("0000:06:00.0", "0x1002", "0x030200");
  EXPECT_FALSE(ProbeGpus(root_.string()).pci_hidden);
}

TEST_F(GpuProbeTest, AVersionThatCannotBeReadIsEmpty) {
  Write("proc/driver/nvidia/version", "NVRM version: something x86_64 1 2.3.4.5 a.b\n");
  reader::VendorHardware probe = ProbeGpus(root_.string());
  EXPECT_TRUE(probe.kernel_driver);
  EXPECT_TRUE(probe.kernel_driver_version.empty());
}

}  // namespace
}  // namespace gpulens::nvml
