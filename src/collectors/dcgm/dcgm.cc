// The DCGM exporter's page under native names, from where that exporter listens by default.

#include "scraping/gpu/dcgm.h"
#include "base/result.h"
#include "pipeline/plugin.h"
#include "scraping/gpu/dcgm_errors.h"
#include "scraping/gpu/dcgm_links.h"
#include "scraping/gpu/dcgm_profiling.h"
#include "scraping/gpu/gpu_page_collector.h"
#include "scraping/page_target.h"
#include "scraping/target_options.h"

namespace gpulens {
namespace {

constexpr std::string_view kDefaultUrl = "http://127.0.0.1:9400/metrics";

// Without a word in the configuration nobody may have such an exporter: its absence is no fault then.
bool Asked(const Config& config) { return config.origin("url").where != Origin::kDefault; }

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  // A demonstration shows simulated GPUs, and no others that it was not told of.
  if (env.demo && !Asked(config)) return Status{Code::kUnavailable, "not configured, and GPUs are simulated"};
  gpu_page::CollectorOptions options;
  options.name = "dcgm";
  options.exporter = gpu_page::FindExporter("dcgm");
  options.pass_through = config.Bool("pass_through");
  options.on_trial = !Asked(config);
  return gpu_page::MakeCollector(config, std::move(options), env);
}

std::vector<Finding> Probe(const Config& config, Env&) {
  auto url = TargetUrl(config);
  if (!url) return {{Finding::kBroken, "dcgm", "", url.error().detail, ""}};
  if (Asked(config)) return {{Finding::kFound, "dcgm", "configured: " + url->Shown(), "", ""}};
  return {{Finding::kNotHere, "dcgm", "", "not configured; read when an exporter answers at " + url->Shown(),
           "collectors: {dcgm: {url: \"http://127.0.0.1:9400/metrics\"}}"}};
}

constexpr auto kOptions =
    JoinOptions(std::to_array<OptionSpec>({
                    {.key = "url",
                     .type = OptionType::kUrl,
                     .fallback = kDefaultUrl,
                     .help = "URL of the page; without a path, /metrics is added. The default URL is "
                             "optional: no error when nothing answers."},
                    {.key = "pass_through",
                     .type = OptionType::kBool,
                     .fallback = "false",
                     .help = "Export families without a native name under their own names."},
                }),
                scraping::kAccessOptions);

constexpr std::span<const gpu_page::PageRow> kTables[] = {gpu_page::kDcgmDevice, gpu_page::kDcgmErrors,
                                                          gpu_page::kDcgmLinks, gpu_page::kDcgmProfiling};
constexpr auto kMetrics = gpu_page::MetricsOf<kTables>();

}  // namespace

extern const CollectorSpec dcgm_collector;
const CollectorSpec dcgm_collector{.name = "dcgm",
                                   .help = "The page of NVIDIA's DCGM exporter, under native names.",
                                   .period = std::chrono::seconds(15),
                                   .ttl = std::chrono::seconds(30),
                                   .options = kOptions,
                                   .metrics = kMetrics,
                                   .scraped = true,
                                   .create = &Create,
                                   .probe = &Probe,
                                   .check = &CheckTarget};

}  // namespace gpulens
