#include "scraping/gpu/gpu_page_collector.h"

#include <algorithm>

#include "base/result.h"
#include "scraping/gpu/gpu_page_series.h"
#include "scraping/page_series.h"
#include "scraping/page_target.h"

namespace gpulens::gpu_page {
namespace {

constexpr Duration kFirstRetry = std::chrono::seconds(15), kLastRetry = std::chrono::minutes(5);

std::vector<std::pair<std::string, std::string>> MoreOf(const Config& config) {
  const auto& more = config.TextMap("attributes");
  return {more.begin(), more.end()};
}

class GpuPageCollector final : public Collector, private PageUser {
 public:
  GpuPageCollector(const Config& config, CollectorOptions options, std::unique_ptr<PageTarget> target,
                   const Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        target_(std::move(target)),
        series_(target_->page(), options_.exporter, MoreOf(config)) {
    if (!options_.pass_through) return;
    others_ = std::make_unique<PageSeries>(
        target_->page(), TargetEntity(config, options_.name),
        [this](const ExpositionFamily& family) { return !series_.Reads(family); });
  }

  bool fetches() const noexcept override { return true; }

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    asked_ = clock_.Now().boot_ns >= retry_at_ns_;
    if (!asked_) return done(Ok());
    target_->Fetch(deadline, std::move(done));
  }

  Status Collect(FrameWriter& out) override {
    if (!asked_) return last_;
    last_ = target_->Collect(*this, out);
    bool wait = options_.on_trial && !target_->answered();
    if (!wait) return last_;
    retry_at_ns_ = out.read_at().boot_ns + retry_.count();
    retry_ = std::min(retry_ * 2, kLastRetry);
    last_ = {Code::kUnavailable, "no DCGM exporter answers at " + last_.detail};
    return last_;
  }

 private:
  Status Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out) override {
    Status status = series_.Write(complete, out);
    if (!series_.exporter()) return status;
    target_->SetUnknownFamilies(series_.unknown_families());
    if (others_) others_->Write(body, format, complete, out);
    return status;
  }

  const CollectorOptions options_;
  const Clock& clock_;
  std::unique_ptr<PageTarget> target_;
  GpuPageSeries series_;
  std::unique_ptr<PageSeries> others_;
  bool asked_ = false;
  int64_t retry_at_ns_ = 0;
  Duration retry_ = kFirstRetry;
  Status last_;
};

}  // namespace

Result<std::unique_ptr<Collector>> MakeCollector(const Config& target, CollectorOptions options, Env& env) {
  PageTarget::Options of_target{.name = options.name, .on_trial = options.on_trial};
  ASSIGN_OR_RETURN(auto made, PageTarget::Make(target, std::move(of_target), env));
  return std::unique_ptr<Collector>(
      std::make_unique<GpuPageCollector>(target, std::move(options), std::move(made), *env.clock));
}

}  // namespace gpulens::gpu_page
