// The host's side against a driver that runs the kernel's steps on a thread; and the real one, where there is
// a GPU.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <gpulens/resident_kernel.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/ring/resident/resident_block.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Duration kTimeout = 20s;

// The PTX in C++.
struct FakeGpu {
  void Run() {
    const auto word = [this](size_t offset) {
      return std::atomic_ref<uint64_t>(
          *reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(block) + offset));
    };
    uint64_t taken = 0, sum = 0, most = 0, least = UINT64_MAX, beats = 0, sequence = 0;
    while (word(ring::kStopAt).load() == 0 && !stuck_out) {
      if (++beats % 1024 == 0) word(8 * ring::kHeartbeats).store(beats);
      const uint64_t sent = word(ring::kSentAt).load();
      if (held || sent == taken || taken - word(ring::kReceivedAt).load() > mask) {
        std::this_thread::yield();
        continue;
      }
      const uint64_t message = word(ring::kRingsAt + 8 * (taken & mask)).load();
      word(ring::kRingsAt + 8 * (mask + 1 + (taken & mask))).store(message * multiply + add);
      const uint64_t took = 1'000 * ++taken;
      sum += took;
      most = std::max(most, took);
      least = std::min(least, took);
      word(8 * ring::kSequence).store(++sequence);
      const uint64_t words[] = {taken, taken, sent - taken, sum, most, least, beats};
      for (size_t i = 0; i < 7; ++i) word(8 * i).store(words[i]);
      word(8 * ring::kSequence).store(++sequence);
      word(ring::kTakenAt).store(taken);
      word(ring::kRepliedAt).store(taken);
    }
    while (stuck_out && !released) std::this_thread::yield();
    done = true;
  }

  void* block = nullptr;
  uint64_t mask = 0, multiply = 0, add = 0;
  int devices = 1, held_handles = 0;
  const char* fails = "";
  int fault = 0;  // code of the stream instead of "not ready"
  std::atomic<bool> held{false}, done{false}, stuck_out{false}, released{false};
  std::thread thread;
};
FakeGpu* gpu = nullptr;

int Outcome(const char* call) { return std::strcmp(gpu->fails, call) == 0 ? 719 : 0; }
cuda::Handle AHandle() {
  ++gpu->held_handles;
  return reinterpret_cast<cuda::Handle>(gpu);
}

// Functions of the driver, with the types of cuda_library.h.
struct Driver {
  static int Init(unsigned) { return Outcome("cuInit"); }
  static int DeviceCount(int* count) { return *count = gpu->devices, Outcome("cuDeviceGetCount"); }
  static int DeviceGet(cuda::Device* device, int index) { return *device = index, 0; }
  static int ContextRetain(cuda::Handle* context, cuda::Device) { return *context = AHandle(), 0; }
  static int ContextRelease(cuda::Device) { return --gpu->held_handles, 0; }
  static int ContextPush(cuda::Handle) { return 0; }
  static int ContextPop(cuda::Handle*) { return 0; }
  static int ModuleLoad(cuda::Handle* module, const void* text) {
    if (Outcome("cuModuleLoadData")) return 719;
    EXPECT_THAT(static_cast<const char*>(text), HasSubstr(".entry gpulens_resident("));
    return *module = AHandle(), 0;
  }
  static int ModuleFunction(cuda::Handle* function, cuda::Handle, const char*) {
    return *function = nullptr, 0;
  }
  static int ModuleUnload(cuda::Handle) { return --gpu->held_handles, 0; }
  static int HostAlloc(void** at, size_t size, unsigned flags) {
    EXPECT_EQ(flags, 3u);
    *at = gpu->block = std::aligned_alloc(64, (size + 63) / 64 * 64);
    return 0;
  }
  static int HostDevicePointer(cuda::DevicePointer* seen, void* at, unsigned) {
    return *seen = reinterpret_cast<uintptr_t>(at), 0;
  }
  static int HostFree(void* at) { return std::free(at), gpu->block = nullptr, 0; }
  static int StreamCreate(cuda::Handle* stream, unsigned) { return *stream = AHandle(), 0; }
  static int StreamQuery(cuda::Handle) { return gpu->done ? 0 : gpu->fault ? gpu->fault : cuda::kNotReady; }
  static int StreamDestroy(cuda::Handle) { return --gpu->held_handles, 0; }
  static int Launch(cuda::Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    cuda::Handle, void** parameters, void**) {
    if (Outcome("cuLaunchKernel")) return 719;
    const auto number = [parameters](int i) { return *static_cast<uint64_t*>(parameters[i]); };
    EXPECT_EQ(number(0), reinterpret_cast<uintptr_t>(gpu->block));
    gpu->mask = number(1);
    gpu->multiply = number(2);
    gpu->add = number(3);
    gpu->thread = std::thread([] { gpu->Run(); });
    return 0;
  }
  static int ErrorName(int code, const char** name) {
    return *name = "CUDA_ERROR_LAUNCH_FAILED", code == 719 ? 0 : 1;
  }
};

void* Lookup(const char* name) {
#define GPULENS_FAKE(member, symbol, parameters) \
  if (std::strcmp(name, symbol) == 0) return reinterpret_cast<void*>(&Driver::member);
  GPULENS_CUDA_CALLS(GPULENS_FAKE)
#undef GPULENS_FAKE
  return nullptr;
}

class Resident : public ::testing::Test {
 protected:
  void SetUp() override { gpu = &gpu_; }
  void TearDown() override {
    gpu_.released = true;
    if (gpu_.thread.joinable()) gpu_.thread.join();
    EXPECT_EQ(gpu_.held_handles, 0) << "everything was given back";
  }
  Result<ResidentKernel> Launch(const ResidentOptions& options) {
    return ResidentAccess::Launch(*cuda::FromLookup(&Lookup), options);
  }
  FakeGpu gpu_;
};

TEST_F(Resident, AnswersInOrder) {
  auto kernel = Launch({.queue_size = 4, .multiply = 3, .add = 1});
  ASSERT_TRUE(kernel) << kernel.error().detail;
  EXPECT_TRUE(std::isnan(kernel->telemetry()->latency_seconds_mean)) << "nothing was measured yet";
  for (uint64_t i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(kernel->Send(i, kTimeout).ok());
    ASSERT_EQ(kernel->Receive(kTimeout).value_or(0), 3 * i + 1);
  }
  const auto telemetry = kernel->telemetry();
  ASSERT_TRUE(telemetry);
  EXPECT_EQ(telemetry->processed, 1'000u);
  EXPECT_EQ(telemetry->queue_depth, 0u);
  EXPECT_TRUE(telemetry->running);
  EXPECT_DOUBLE_EQ(telemetry->latency_seconds_min, 1e-6);
  EXPECT_DOUBLE_EQ(telemetry->latency_seconds_max, 1e-3);
  EXPECT_DOUBLE_EQ(telemetry->latency_seconds_mean, 500.5e-6);
  EXPECT_EQ(kernel->Receive(1ms).status().code, Code::kTimeout);
  EXPECT_TRUE(kernel->Terminate(kTimeout).ok());
  EXPECT_EQ(kernel->Send(1, 1ms).code, Code::kUnavailable);
  EXPECT_EQ(kernel->Receive(1ms).status().code, Code::kUnavailable);
  EXPECT_FALSE(kernel->TrySend(1));
  EXPECT_EQ(kernel->telemetry().status().code, Code::kUnavailable);
}

TEST_F(Resident, DoesNotOverwriteAFullQueue) {
  gpu_.held = true;
  auto kernel = Launch({.queue_size = 4});
  ASSERT_TRUE(kernel);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(kernel->TrySend(i));
  EXPECT_FALSE(kernel->TrySend(4));
  EXPECT_EQ(kernel->Send(4, 1ms).code, Code::kTimeout);
  EXPECT_EQ(kernel->telemetry()->queue_depth, 4u);
  EXPECT_EQ(kernel->telemetry()->rejected, 2u);
  gpu_.held = false;
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(kernel->Receive(kTimeout).value_or(99), i);
}

TEST_F(Resident, UnreceivedRepliesBlockIt) {
  auto kernel = Launch({.queue_size = 2});
  ASSERT_TRUE(kernel);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(kernel->Send(i, kTimeout).ok());
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(kernel->Receive(kTimeout).value_or(99), i);
  EXPECT_EQ(kernel->telemetry()->processed, 4u);
}

TEST_F(Resident, ReportsAGpuFault) {
  auto kernel = Launch({});
  ASSERT_TRUE(kernel);
  gpu_.fault = 719;
  EXPECT_FALSE(kernel->telemetry()->running);
  const Status status = kernel->Receive(kTimeout).status();
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_THAT(status.detail, HasSubstr("CUDA_ERROR_LAUNCH_FAILED (719)"));
  gpu_.stuck_out = gpu_.released = true;
  gpu_.thread.join();  // before its memory is given back
}

TEST_F(Resident, KeepsTheMemoryOfAKernelThatDoesNotEnd) {
  gpu_.stuck_out = true;
  auto kernel = Launch({});
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->Terminate(1ms).code, Code::kTimeout);
  EXPECT_NE(gpu_.block, nullptr);
  gpu_.released = true;
  EXPECT_TRUE(kernel->Terminate(kTimeout).ok());
  EXPECT_EQ(gpu_.block, nullptr);
}

TEST_F(Resident, ReportsFailedLaunches) {
  EXPECT_EQ(Launch({.queue_size = 3}).status().code, Code::kInvalidArgument);
  EXPECT_EQ(Launch({.queue_size = 0}).status().code, Code::kInvalidArgument);
  EXPECT_EQ(Launch({.queue_size = size_t{1} << 21}).status().code, Code::kInvalidArgument);
  const Status none = Launch({.device = 1}).status();
  EXPECT_EQ(none.code, Code::kUnavailable);
  EXPECT_EQ(none.detail, "there is no CUDA device 1 among 1");
  for (const char* call : {"cuInit", "cuModuleLoadData", "cuLaunchKernel"}) {
    gpu_.fails = call;
    const Status status = Launch({}).status();
    EXPECT_EQ(status.code, call == std::string("cuInit") ? Code::kUnavailable : Code::kIo);
    EXPECT_THAT(status.detail, HasSubstr(std::string(call) + ": CUDA_ERROR_LAUNCH_FAILED (719)"));
    EXPECT_EQ(gpu_.held_handles, 0) << call;
  }
  const auto old = cuda::FromLookup([](const char*) -> void* { return nullptr; });
  EXPECT_THAT(old.status().detail, HasSubstr("has no cuInit"));
}

TEST(ResidentOnGpu, AnswersAndReportsTelemetry) {
  auto kernel = ResidentKernel::Launch({.queue_size = 256, .multiply = 3, .add = 1});
  if (!kernel) {
    EXPECT_EQ(kernel.error().code, Code::kUnavailable) << kernel.error().detail;
    GTEST_SKIP() << kernel.error().detail;
  }
  constexpr uint64_t kMessages = 20'000;
  for (uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(kernel->Send(i, kTimeout).ok());
    ASSERT_EQ(kernel->Receive(kTimeout).value_or(0), 3 * i + 1);
  }
  const auto telemetry = kernel->telemetry();
  ASSERT_TRUE(telemetry) << telemetry.error().detail;
  EXPECT_EQ(telemetry->processed, kMessages);
  EXPECT_TRUE(telemetry->running);
  EXPECT_GT(telemetry->heartbeats, 0u);
  EXPECT_GT(telemetry->latency_seconds_max, 0);
  EXPECT_LT(telemetry->latency_seconds_mean, 1);
  EXPECT_TRUE(kernel->Terminate(kTimeout).ok());
}

}  // namespace
}  // namespace gpulens
