#include "agent/pages/landing_page.h"

#include "agent/pages/landing_gpus.h"
#include "base/version.h"
#include "plugins/latest_snapshot.h"

namespace gpulens {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>gpulens</title><style>
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{text-align:left;padding:.2rem 1.2rem .2rem 0;vertical-align:top}
pre{overflow:auto;padding:.8rem;border:1px solid #8886}.n{text-align:right}
</style></head><body>
)";

std::string Age(const InstanceStats& stats, Instant now) {
  if (stats.last_success_unix_ns == 0) return "–";
  int64_t tenths = (now.unix_ns - stats.last_success_unix_ns) / 100'000'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

void AppendSource(std::string& out, const Pipeline::InstanceView& view, Instant now) {
  out += "<tr><td>";
  AppendHtml(out, view.name);
  out += "</td><td>";
  if (view.stats.up) out += "● found";
  else if (view.answered) out += view.stats.last.code == Code::kUnavailable ? "absent" : "▲ not read";
  else out += "waiting";
  out += "</td><td class=n>" + (view.stats.up ? std::to_string(view.stats.series) : std::string("–"));
  out += "</td><td class=n>" + Age(view.stats, now) + "</td><td>";
  if (!view.stats.up) AppendHtml(out, view.stats.last.detail);
  out += "</td></tr>\n";
}

}  // namespace

std::string MakeLandingPage(const Env& env, const Pipeline& pipeline, std::string_view host) {
  Instant now = env.clock->Now();
  std::string out(kHead);
  out += "<h1>gpulens " + std::string(Version()) + "</h1>\n";
  if (env.demo) out += "<p><strong>SIMULATED GPUs:</strong> no GPU is read. Host series are real.</p>\n";
  if (Ref<const Snapshot> snapshot = env.latest->latest()) {
    if (std::string gpus = MakeGpuTable(*snapshot); !gpus.empty()) out += "<h2>GPUs</h2>\n" + gpus;
  }
  out += R"(<h2>Read it</h2>
<p><a href="/metrics">/metrics</a> · <a href="/json">/json</a> · <a href="/health">/health</a> ·
<a href="/-/ready">/-/ready</a>. Every name is explained by <code>gpulens metrics</code>.</p>
<h2>Sources</h2>
<table><tr><th>source</th><th>state</th><th class=n>series</th><th class=n>read</th><th>why</th></tr>
)";
  for (const Pipeline::InstanceView& view : pipeline.instances()) AppendSource(out, view, now);
  out += R"(</table>
<h2>Scrape it</h2>
<pre>scrape_configs:
  - job_name: gpulens
    static_configs: [{targets: [")";
  AppendHtml(out, host);
  out += R"("]}]</pre>
<p>What is not found and what to do: <code>gpulens doctor</code>.</p>
</body></html>
)";
  return out;
}

}  // namespace gpulens
