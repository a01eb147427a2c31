#include "plugins/analyzers/cost/engine_binding.h"

#include <gtest/gtest.h>

namespace gpulens::cost {
namespace {

EngineRules Rules(const std::map<std::string, std::string>& option) {
  auto rules = EngineRules::Parse(option);
  EXPECT_TRUE(rules.ok()) << rules.status().detail;
  return rules ? *rules : EngineRules();
}

ProcessIdentity Process(int64_t pid, std::vector<int64_t> parents = {}, int64_t gpu = 0, PodName pod = {}) {
  return {.pid = pid,
          .parents = std::move(parents),
          .gpu_index = gpu,
          .gpu_uuid = "GPU-" + std::to_string(gpu),
          .pod = std::move(pod)};
}
EngineIdentity Engine(std::string name, int64_t pid = 0, PodName pod = {}) {
  return {std::move(name), pid, std::move(pod)};
}

TEST(EngineBinding, WorkersOfEightGpusAreChildrenOfTheServer) {
  const std::vector<EngineIdentity> engines = {Engine("vllm", 100), Engine("other", 900)};
  for (int64_t gpu = 0; gpu < 8; ++gpu) {
    EXPECT_EQ(EngineRules().EngineOf(Process(200 + gpu, {150, 100, 20}, gpu), engines), "vllm") << gpu;
  }
  EXPECT_EQ(EngineRules().EngineOf(Process(100), engines), "vllm") << "the server itself";
  EXPECT_EQ(EngineRules().EngineOf(Process(300, {20}), engines), "") << "a process of neither";
  EXPECT_EQ(EngineRules().EngineOf(Process(300), engines), "") << "its parents are not known";
}

TEST(EngineBinding, TwoEnginesOnOneGpuHaveTheirOwnProcesses) {
  const std::vector<EngineIdentity> engines = {Engine("a", 100), Engine("b", 200)};
  EXPECT_EQ(EngineRules().EngineOf(Process(101, {100, 9}), engines), "a");
  EXPECT_EQ(EngineRules().EngineOf(Process(201, {200, 9}), engines), "b");
}

TEST(EngineBinding, TheNearestServerCounts) {
  // One engine was started by another.
  const std::vector<EngineIdentity> engines = {Engine("outer", 100), Engine("inner", 150)};
  EXPECT_EQ(EngineRules().EngineOf(Process(200, {150, 100}), engines), "inner");
  EXPECT_EQ(EngineRules().EngineOf(Process(201, {100}), engines), "outer");
}

TEST(EngineBinding, OneProcessWithTwoPagesIsOfNeither) {
  const std::vector<EngineIdentity> engines = {Engine("a", 100), Engine("b", 100)};
  EXPECT_EQ(EngineRules().EngineOf(Process(101, {100}), engines), "");
}

TEST(EngineBinding, ThePodOfThePageAndTheProcess) {
  const PodName pod{"uid-1", "ml", "llama-0"}, other{"uid-2", "ml", "llama-1"};
  const std::vector<EngineIdentity> engines = {Engine("a", 0, pod), Engine("b", 0, other)};
  EXPECT_EQ(EngineRules().EngineOf(Process(7, {}, 0, pod), engines), "a");
  EXPECT_EQ(EngineRules().EngineOf(Process(7, {}, 0, {"", "ml", "llama-1"}), engines), "b") << "by its name";
  EXPECT_EQ(EngineRules().EngineOf(Process(7, {}, 0, {"uid-3", "ml", "llama-1"}), engines), "")
      << "a later pod of the same name";
  EXPECT_EQ(EngineRules().EngineOf(Process(7, {}, 0, {"", "", "llama-1"}), engines), "")
      << "a name without its namespace is of any pod";
  EXPECT_EQ(EngineRules().EngineOf(Process(7), engines), "") << "no pod is known";
}

TEST(EngineBinding, TwoEnginesInOnePodAreNotGuessed) {
  const PodName pod{"uid-1", "ml", "llama-0"};
  const std::vector<EngineIdentity> engines = {Engine("a", 0, pod), Engine("b", 0, pod)};
  EXPECT_EQ(EngineRules().EngineOf(Process(7, {}, 0, pod), engines), "");
  const std::vector<EngineIdentity> known = {Engine("a", 70, pod), Engine("b", 80, pod)};
  EXPECT_EQ(EngineRules().EngineOf(Process(7, {70}, 0, pod), known), "a") << "the process decides first";
}

TEST(EngineBinding, TheOptionDecidesFirst) {
  const EngineRules rules =
      Rules({{"a", "gpu=0-3,6"}, {"b", "pid=50"}, {"c", "pod=ml/llama-0 pod=x"}, {"d", "gpu=GPU-7"}});
  const std::vector<EngineIdentity> engines = {Engine("e", 100), Engine("a", 100)};
  EXPECT_EQ(rules.EngineOf(Process(101, {100}, 2), engines), "a");
  EXPECT_EQ(rules.EngineOf(Process(101, {100}, 6), engines), "a");
  EXPECT_EQ(rules.EngineOf(Process(101, {100}, 5), engines), "e")
      << "an engine with an option has only what the option names";
  EXPECT_EQ(rules.EngineOf(Process(51, {50}, 4), engines), "b") << "a child";
  EXPECT_EQ(rules.EngineOf(Process(51, {50}, 0), engines), "") << "two options fit";
  EXPECT_EQ(rules.EngineOf(Process(9, {}, 4, {"", "ml", "llama-0"}), engines), "c");
  EXPECT_EQ(rules.EngineOf(Process(9, {}, 4, {"", "other", "llama-0"}), engines), "");
  EXPECT_EQ(rules.EngineOf(Process(9, {}, 4, {"", "any", "x"}), engines), "c") << "without a namespace: any";
  EXPECT_EQ(rules.EngineOf(Process(9, {}, 7), engines), "d") << "by its UUID";
}

TEST(EngineBinding, AGpuThatAPodHasButNoProcessUses) {
  const PodName pod{"uid-1", "ml", "llama-0"};
  const std::vector<EngineIdentity> engines = {Engine("a", 0, pod), Engine("b")};
  EXPECT_EQ(EngineRules().EngineOfGpu(0, "GPU-0", pod, engines), "a");
  EXPECT_EQ(EngineRules().EngineOfGpu(0, "GPU-0", {}, engines), "");
  EXPECT_EQ(Rules({{"b", "gpu=0"}}).EngineOfGpu(0, "GPU-0", pod, engines), "b");
}

TEST(EngineBinding, OtherTextsAreRefusedWithTheTarget) {
  for (const char* text : {"", "gpu", "gpu=", "gpu=x", "gpu=3-1", "gpu=1-", "gpu=-1", "pid=0", "pid=1-2",
                           "pid=x", "pod=", "pod=a/", "host=1", "0-3"}) {
    auto rules = EngineRules::Parse({{"vllm", text}});
    ASSERT_FALSE(rules.ok()) << text;
    EXPECT_EQ(rules.error().code, Code::kInvalidArgument);
    EXPECT_NE(rules.error().detail.find("engines: vllm: "), std::string::npos) << rules.error().detail;
  }
}

}  // namespace
}  // namespace gpulens::cost
