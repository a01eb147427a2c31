#include "scrape/scrape_record.h"

#include "catalog/self.h"

namespace gpulens {
namespace {

std::string_view NameOf(size_t failure) noexcept {
  constexpr std::string_view kOurs[] = {"credentials", "content_type", "page", "too_many_samples",
                                        "too_many_families"};
  if (failure >= kHttpFailures) return kOurs[failure - kHttpFailures];
  return HttpFailureName(static_cast<HttpFailure>(failure));
}

}  // namespace

ScrapeRecord::ScrapeRecord(std::string_view target, std::string_view url, AttributeSet configured)
    : entity_(
          MakeRef<Entity>("target", AttributeSet({{"target", target}}), EntityRef{}, std::move(configured))),
      url_(url) {}

void ScrapeRecord::Declare(SeriesTable& table) {
  declared_ = true;
  up_ = table.Declare(kSelfScrapeUp, entity_);
  duration_ = table.Declare(kSelfScrapeDuration, entity_);
  samples_series_ = table.Declare(kSelfScrapeSamples, entity_);
  size_ = table.Declare(kSelfScrapeSize, entity_);
  parse_errors_ = table.Declare(kSelfScrapeParseErrors, entity_);
  info_ = table.Declare(kSelfScrapeInfo, entity_, {{"url", std::string_view(url_)}});
  for (size_t i = 1; i < kScrapeFailures; ++i) {
    errors_[i] = table.Declare(kSelfScrapeErrors, entity_, {{"reason", NameOf(i)}});
  }
  if (!knows_losses_) return;
  for (size_t i = 0; i < kSeriesLosses; ++i) {
    auto loss = static_cast<SeriesLoss>(i);
    if (loss == SeriesLoss::kApart && !losses_.folds) continue;
    dropped_[i] = table.Declare(kSelfScrapeSeriesDropped, entity_, {{"reason", SeriesLossName(loss)}});
  }
  if (losses_.folds) folded_ = table.Declare(kSelfScrapeSeriesFolded, entity_);
}

void ScrapeRecord::Page(const ExpositionReport& report, size_t body_bytes) {
  has_page_ = true;
  samples_ = report.samples;
  bytes_ = body_bytes;
  bad_lines_ += report.bad_lines;
  twice_ = report.duplicates;
}

void ScrapeRecord::Write(bool up, Duration took, FrameWriter& out) {
  Prepare(out.table());
  out.Set(up_, up ? 1 : 0);
  out.Set(duration_, static_cast<double>(took.count()) * 1e-9);
  if (has_page_) {
    out.Set(samples_series_, samples_);
    out.Set(size_, bytes_);
  }
  if (has_page_ && knows_families_) {
    if (!unknown_) unknown_ = out.table().Declare(kSelfScrapeFamiliesUnknown, entity_);
    out.Set(unknown_, unknown_families_);
  }
  if (has_page_ && knows_losses_) WriteLosses(out);
  has_page_ = false;
  out.Set(parse_errors_, bad_lines_);
  out.Set(info_, 1);
  for (size_t i = 1; i < kScrapeFailures; ++i) out.Set(errors_[i], failures_[i]);
}

void ScrapeRecord::WriteLosses(FrameWriter& out) {
  SeriesLosses losses = losses_;
  losses[SeriesLoss::kDuplicate] += twice_;
  for (size_t i = 0; i < kSeriesLosses; ++i) {
    if (dropped_[i]) out.Set(dropped_[i], losses.dropped[i]);
  }
  if (folded_) out.Set(folded_, losses.folded);
}

}  // namespace gpulens
