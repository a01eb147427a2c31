// Pages of GPU exporters under native names: DCGM, AMD, Gaudi, Intel. One instance per target.

#include "base/result.h"
#include "pipeline/plugin.h"
#include "scraping/gpu/amd_exporter.h"
#include "scraping/gpu/dcgm.h"
#include "scraping/gpu/dcgm_errors.h"
#include "scraping/gpu/dcgm_links.h"
#include "scraping/gpu/dcgm_profiling.h"
#include "scraping/gpu/gpu_page_collector.h"
#include "scraping/gpu/habana.h"
#include "scraping/gpu/xpum.h"
#include "scraping/page_target.h"
#include "scraping/target_options.h"

namespace gpulens {
namespace {

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  gpu_page::CollectorOptions options;
  options.name = config.Text("name");
  options.exporter = gpu_page::FindExporter(config.Text("exporter"));  // "auto": null
  options.pass_through = config.Bool("pass_through");
  return gpu_page::MakeCollector(config, std::move(options), env);
}

std::vector<Finding> Probe(const Config& config, Env&) {
  return ProbeTargets(
      config, "gpu_page",
      "collectors: {gpu_page: {targets: [{name: amd, url: \"http://127.0.0.1:5000/metrics\"}]}}");
}

constexpr std::string_view kExporterNames[] = {"auto", "dcgm", "amd", "habana", "xpum"};

constexpr auto kTargetOptions = JoinOptions(
    scraping::kTargetOptions, std::to_array<OptionSpec>({
                                  {.key = "exporter",
                                   .fallback = "auto",
                                   .help = "The exporter; auto detects it by the metric names.",
                                   .allowed = kExporterNames},
                                  {.key = "pass_through",
                                   .type = OptionType::kBool,
                                   .fallback = "false",
                                   .help = "Export families without a native name under their own names."},
                              }));

constexpr OptionSpec kOptions[] = {
    {.key = "targets", .type = OptionType::kGroups, .help = "The pages to read.", .children = kTargetOptions},
};

constexpr std::span<const gpu_page::PageRow> kTables[] = {
    gpu_page::kDcgmDevice, gpu_page::kDcgmErrors, gpu_page::kDcgmLinks,    gpu_page::kDcgmProfiling,
    gpu_page::kAmdDevice,  gpu_page::kAmdEcc,     gpu_page::kHabanaDevice, gpu_page::kXpumDevice};
constexpr auto kMetrics = gpu_page::MetricsOf<kTables>();

}  // namespace

extern const CollectorSpec gpu_page_collector;
const CollectorSpec gpu_page_collector{
    .name = "gpu_page",
    .help = "Pages of other GPU exporters (DCGM, AMD, Gaudi, Intel), under native names.",
    .period = std::chrono::seconds(15),
    .ttl = std::chrono::seconds(30),
    .options = kOptions,
    .metrics = kMetrics,
    .instances_option = "targets",
    .scraped = true,
    .create = &Create,
    .probe = &Probe,
    .check = &CheckTargets};

}  // namespace gpulens
