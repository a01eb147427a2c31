// Analyzer that makes metrics of LLM engines over a window (vllm.*, nim.*, triton.*, sglang.*, tgi.*) from
// their engine metrics: docs/inference-windows.md.

#include <algorithm>
#include <utility>

#include "catalog/inference.h"
#include "plugins/analyzers/inference/engine_group.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

constexpr OptionSpec kOptions[] = {
    TimeOption("window", "60s",
               "Time over which quantiles, rates and ratios are computed; the last two scrapes always count",
               1, 3600),
};
using Options = OptionsOf<kOptions>;

class InferenceWindows final : public Analyzer {
 public:
  explicit InferenceWindows(Duration window) : window_(window) {}

  Status Analyze(const Snapshot& snapshot, FrameWriter& out) override {
    for (Followed& followed : sources_) followed.seen = false;
    for (size_t i = 0; i < snapshot.frames.size(); ++i) {
      const SnapshotEntry& entry = snapshot.frames[i];
      Followed& followed = Find(entry.source, i);
      // Of two frames with one name the first counts.
      if (std::exchange(followed.seen, true)) continue;
      followed.source->Update(entry, window_, scratch_, out);
    }
    std::erase_if(sources_, [&](const Followed& followed) {
      if (!followed.seen) followed.source->End(out.table());
      return !followed.seen;
    });
    return Ok();
  }

 private:
  struct Followed {
    std::unique_ptr<windows::EngineSource> source;
    bool seen = false;
  };

  // Frames mostly keep their order.
  Followed& Find(std::string_view name, size_t hint) {
    if (hint < sources_.size() && sources_[hint].source->name() == name) return sources_[hint];
    for (Followed& followed : sources_) {
      if (followed.source->name() == name) return followed;
    }
    sources_.push_back({std::make_unique<windows::EngineSource>(name), false});
    return sources_.back();
  }

  const Duration window_;
  std::vector<Followed> sources_;
  windows::FeedScratch scratch_;
};

Result<std::unique_ptr<Analyzer>> Create(const Config& config, Env&) {
  return std::unique_ptr<Analyzer>(std::make_unique<InferenceWindows>(Options(config).Time("window")));
}

}  // namespace

extern const AnalyzerSpec inference_analyzer;
const AnalyzerSpec inference_analyzer{
    .name = "inference",
    .help = "Native names of LLM engines: rates, ratios and quantiles over a window.",
    .options = kOptions,
    .metrics = kInferenceWindowRows,
    .create = &Create};

}  // namespace gpulens
