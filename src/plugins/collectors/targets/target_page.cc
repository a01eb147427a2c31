#include "plugins/collectors/targets/target_page.h"

#include <utility>

#include "base/log.h"
#include "catalog/inference.h"
#include "scrape/engine/engine_drift.h"
#include "scrape/engine/engine_identity.h"
#include "scrape/engine/engine_page_series.h"
#include "scrape/gpu/gpu_page_series.h"
#include "scrape/page_series.h"

namespace gpulens::targets {
namespace {

using engine_page::DriftWatch;
using engine_page::Engine;
using engine_page::EngineFacts;
using engine_page::EnginePageSeries;
using engine_page::KnownFamily;
using gpu_page::GpuPageSeries;

std::vector<std::pair<std::string, std::string>> AttributesOf(const Config& config) {
  const auto& attributes = config.TextMap("attributes");
  return {attributes.begin(), attributes.end()};
}

// Families that the client library of the exporter's language adds to any page.
bool IsOfRuntime(std::string_view family) {
  constexpr std::string_view kPrefixes[] = {"go_", "process_", "promhttp_", "python_", "scrape_"};
  for (std::string_view prefix : kPrefixes) {
    if (family.starts_with(prefix)) return true;
  }
  return false;
}

class PlainPage final : public TargetPage {
 public:
  explicit PlainPage(const PageParts& parts)
      : target_(parts.target), series_(parts.target.page(), parts.entity, {}, parts.rules) {
    target_.SetLosses(series_.losses());
  }

 private:
  Status Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out) override {
    series_.Write(body, format, complete, out);
    target_.SetLosses(series_.losses());
    return Ok();
  }

  PageTarget& target_;
  PageSeries series_;
};

class GpuPage final : public TargetPage {
 public:
  GpuPage(const PageParts& parts, const gpu_page::Exporter* exporter)
      : target_(parts.target), series_(parts.target.page(), exporter, AttributesOf(parts.config)) {
    if (!parts.config.Bool("pass_through")) return;
    others_ = std::make_unique<PageSeries>(
        parts.target.page(), parts.entity,
        [this](const ExpositionFamily& family) { return !series_.Reads(family); }, parts.rules);
    target_.SetLosses(others_->losses());
  }

 private:
  Status Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out) override {
    Status status = series_.Write(complete, out);
    if (!series_.exporter()) return status;
    target_.SetUnknownFamilies(series_.unknown_families());
    if (!others_) return status;
    others_->Write(body, format, complete, out);
    target_.SetLosses(others_->losses());
    return status;
  }

  PageTarget& target_;
  GpuPageSeries series_;
  std::unique_ptr<PageSeries> others_;  // null: families that no table reads are not exported
};

class EnginePage final : public TargetPage {
 public:
  EnginePage(const PageParts& parts, const Engine* engine)
      : name_(parts.config.Text("name")),
        model_is_set_(!parts.config.Text("model").empty()),
        clock_(*parts.env.clock),
        target_(parts.target),
        series_(target_.page(), {.target = name_,
                                 .engine = engine,
                                 .model = parts.config.Text("model"),
                                 .attributes = AttributesOf(parts.config),
                                 .rules = parts.rules}),
        identity_(*TargetUrl(parts.config), ParseHttpUrl(parts.config.Text("api")), *parts.env.http),
        entity_(parts.entity) {
    target_.SetLosses(series_.losses());
    if (!parts.config.Bool("pass_through")) return;
    raw_ = std::make_unique<PageSeries>(
        target_.page(), entity_, [this](const ExpositionFamily& family) { return Passes(family); },
        parts.rules);
  }

  void BeforeFetch() override {
    identity_.Query(series_.families().main(), target_.access(), clock_.Now().boot_ns);
  }

 private:
  Status Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out) override {
    const EngineFacts facts = identity_.facts();
    if (!model_is_set_) series_.SetModel(facts.model);
    const uint64_t before = series_.generation();
    Status status = series_.Write(complete, out);
    if (!series_.families().main()) return status;
    WriteVersion(facts.version, out);
    target_.SetUnknownFamilies(series_.families().unknown());
    if (raw_) raw_->Write(body, format, complete, out);
    target_.SetLosses(raw_ ? raw_->losses() : series_.losses());
    if (complete && (before != series_.generation() || !looked_)) Watch();
    return status;
  }

  // Raw families are exported as they are, except those that the host collector reads better.
  bool Passes(const ExpositionFamily& family) const {
    const auto families = target_.page().families();
    const size_t index = static_cast<size_t>(&family - families.data());
    const auto known = series_.families().families();
    return index < known.size() && known[index].kind != KnownFamily::kIgnored;
  }

  void WriteVersion(const std::string& version, FrameWriter& out) {
    if (version.empty()) return;
    if (version != version_) {
      out.table().Retire(version_series_);
      version_ = version;
      version_series_ = out.table().Declare(kInferenceEngineVersion, entity_,
                                            {{"inference.engine", series_.families().main()->name},
                                             {"inference.engine.version", std::string_view(version_)}});
    }
    out.Set(version_series_, 1);
  }

  void Watch() {
    looked_ = true;
    for (const DriftWatch::Finding& finding : drift_.Look(target_.page(), series_.families())) {
      // An engine that was restarted exports its families as they are first used.
      if (finding.kind == DriftWatch::Finding::kGone || finding.kind == DriftWatch::Finding::kBack) {
        identity_.Again();
        Log(LogLevel::kDebug, "targets", "drift", target_.url() + ": " + finding.sentence, name_);
        continue;
      }
      std::string text = target_.url() + ": " + finding.sentence;
      if (!finding.row.empty()) text += "; a row for it: " + finding.row;
      Log(LogLevel::kInfo, "targets", "drift." + finding.family, text, name_);
    }
  }

  const std::string name_;
  const bool model_is_set_;
  const Clock& clock_;
  PageTarget& target_;
  EnginePageSeries series_;
  engine_page::EngineIdentity identity_;
  const EntityRef entity_;
  std::unique_ptr<PageSeries> raw_;  // null: families under their own names are not exported
  DriftWatch drift_;
  bool looked_ = false;
  std::string version_;
  Series version_series_;
};

}  // namespace

PageKind Recognise(const ScrapedPage& page) {
  constexpr size_t kFewest = 3;
  size_t families = 0;
  for (const ExpositionFamily& family : page.families())
    families += family.alive && !IsOfRuntime(family.name);
  const size_t of_gpus = gpu_page::DetectExporter(page).families;
  if (of_gpus >= kFewest && of_gpus * 2 >= families) return PageKind::kGpu;
  engine_page::PageFamilies known(nullptr);
  known.Look(page);
  return known.main() ? PageKind::kEngine : PageKind::kPlain;
}

std::unique_ptr<TargetPage> MakePlainPage(const PageParts& parts) {
  return std::make_unique<PlainPage>(parts);
}

std::unique_ptr<TargetPage> MakeGpuPage(const PageParts& parts, const gpu_page::Exporter* exporter) {
  return std::make_unique<GpuPage>(parts, exporter);
}

std::unique_ptr<TargetPage> MakeEnginePage(const PageParts& parts, const Engine* engine) {
  return std::make_unique<EnginePage>(parts, engine);
}

}  // namespace gpulens::targets
