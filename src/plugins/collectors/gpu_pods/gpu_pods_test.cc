#include <gtest/gtest.h>

#include <set>

#include "catalog/kubernetes.h"
#include "plugins/gpu_pod_table.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const CollectorSpec gpu_pods_collector;

namespace {

AttributeSet Holds(std::string_view gpu, std::string_view pod) {
  return AttributeSet({{"gpu.uuid", gpu}, {"k8s.pod.name", pod}, {"gpu.allocation", "shared"}});
}

class GpuPodsTest : public ::testing::Test {
 protected:
  GpuPodsTest() { env_.gpu_pods = &board_; }
  // "GPU pod" of each series that has the value 1.
  std::set<std::string> Run() {
    writer_.Begin(env_.clock->Now());
    status_ = collector_->Collect(writer_);
    Ref<const Frame> frame = writer_.Finish();
    std::set<std::string> out;
    for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame->layout)[slot];
      if (info.desc != &kGpuPodInfo || frame->quality[slot] != Quality::kOk) continue;
      out.insert(info.attributes.Text("gpu.uuid") + " " + info.attributes.Text("k8s.pod.name"));
    }
    return out;
  }

  GpuPodTable board_;
  Env env_;
  std::unique_ptr<Collector> collector_;
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10)};
  Status status_;
};

TEST_F(GpuPodsTest, FollowsTheList) {
  EXPECT_EQ(gpu_pods_collector.create({}, env_).status().code, Code::kUnavailable) << "no enricher";
  int enricher = 0, another = 0;
  board_.Set(&enricher, {});
  collector_ = *gpu_pods_collector.create({}, env_);
  EXPECT_TRUE(Run().empty());
  board_.Set(&enricher, {Holds("GPU-1", "a"), Holds("GPU-1", "b"), Holds("GPU-1", "b")});
  EXPECT_EQ(Run(), (std::set<std::string>{"GPU-1 a", "GPU-1 b"}));
  EXPECT_EQ(Run(), (std::set<std::string>{"GPU-1 a", "GPU-1 b"}));
  board_.Set(&enricher, {Holds("GPU-1", "b"), Holds("GPU-2", "c")});
  EXPECT_EQ(Run(), (std::set<std::string>{"GPU-1 b", "GPU-2 c"})) << "gone with the next list";
  EXPECT_EQ(table_.size(), 2u);
  EXPECT_EQ(table_.refused(SeriesRefusal::kDuplicate), 0u);
  board_.Clear(&another);
  Run();
  EXPECT_TRUE(status_.ok()) << "the end of another enricher";
  board_.Clear(&enricher);
  EXPECT_TRUE(Run().empty());
  EXPECT_EQ(status_.code, Code::kUnavailable);
}

}  // namespace
}  // namespace gpulens
