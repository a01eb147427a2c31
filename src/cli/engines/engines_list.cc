#include "cli/engines/engines_list.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/text.h"
#include "cli/common/output.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

using engine_page::AllEngines;
using engine_page::Engine;
using engine_page::EngineRow;

constexpr NotOffered kNotOffered[] = {
    {"tgi", "TimeToFirstToken", "queue and prefill times of a batch would be a guess and are not shown"},
    {"tgi", "InterTokenLatency", "only the mean per request: TimePerOutputToken"},
    {"triton", "RequestsRunning", "reports pending requests, not running ones"},
    {"triton", "PromptTokens", "serves any model, not only LLMs; its backends report tokens"},
    {"triton", "GenerationTokens", "serves any model, not only LLMs; its backends report tokens"},
    {"triton", "KvCacheUsage", "its backends report it"},
    {"triton-tensorrtllm", "RequestDuration", "reported by Triton's own families on the same page"},
    {"triton-tensorrtllm", "RequestsFinished", "reported by Triton's own families on the same page"},
    {"nim", "BatchSize",
     "no family; requests running are those admitted at one moment, not an executed batch"},
    {"llama.cpp", "RequestDuration", "llama-server does not record request times"},
    {"llama.cpp", "TimeToFirstToken", "llama-server does not record request times"},
    {"tei", "RequestsRunning", "reports its queue only"},
    {"tei", "GenerationTokens", "generates embeddings, not text"},
    {"tei", "TimeToFirstToken", "generates embeddings, not text"},
    {"tei", "KvCacheUsage", "embedding models keep no KV cache"},
    {"xinference", "RequestsRunning", "running and waiting are one number: RequestsInFlight"},
    {"xinference", "RequestsWaiting", "running and waiting are one number: RequestsInFlight"},
    {"xinference", "RequestDuration", "the duration of a stream ends when the stream begins"},
    {"xinference", "RequestsFinished", "failed requests are included: RequestsAdmitted and RequestsFailed"},
    {"ollama", "RequestsRunning", "has no page; its exporters do not see its queue"},
    {"ollama", "RequestsWaiting", "has no page; its exporters do not see its queue"},
};

// The layers in the order in which a request meets them, the last first.
constexpr std::string_view kLayers[] = {"engine", "worker", "cache", "router", "gateway"};

std::span<const EngineRow> ReadRows(const Engine& engine) noexcept {
  return engine.reads.empty() ? std::span<const EngineRow>() : engine_page::FindEngine(engine.reads)->rows;
}

// The families that have the role, each once.
std::vector<std::string_view> FamiliesOf(const Engine& engine, const EngineMetric& role) {
  std::vector<std::string_view> out;
  for (std::span<const EngineRow> rows : {engine.rows, ReadRows(engine)}) {
    for (const EngineRow& row : rows) {
      if (row.metric == role.metric && std::ranges::find(out, row.family) == out.end())
        out.push_back(row.family);
    }
  }
  return out;
}

size_t CountFamilies(const Engine& engine) {
  size_t count = 0;
  std::string_view last;
  for (const EngineRow& row : engine.rows) {
    count += row.family != last;
    last = row.family;
  }
  return count;
}

size_t CountRoles(const Engine& engine) {
  std::span<const EngineMetric> roles = AllEngineMetrics();
  return static_cast<size_t>(
      std::ranges::count_if(roles, [&](const EngineMetric& role) { return Offers(engine, role); }));
}

std::string PageOf(const Engine& engine) {
  return ":" + std::to_string(engine.port) + std::string(engine.path);
}

std::string OneTable(const Engine& engine) {
  std::string out = std::string(engine.name) + "   layer " + std::string(engine.layer) + ", page at " +
                    PageOf(engine) + ", known by " + std::string(engine.recognised) + "\n\n";
  out += Padded("ROLE", 28) + Padded("METRIC", 44) + "FAMILIES\n";
  for (const EngineMetric& role : AllEngineMetrics()) {
    std::vector<std::string_view> families = FamiliesOf(engine, role);
    if (families.empty()) continue;
    out += Padded(role.name, 28) + Padded(role.metric->name, 44) + Joined(families, " ") + "\n";
  }
  for (const NotOffered& row : kNotOffered) {
    if (row.engine != engine.name) continue;
    out += "not offered   " + std::string(row.role) + ": " + std::string(row.reason) + "\n";
  }
  return out;
}

void AppendMatrix(std::string& out, const std::vector<const Engine*>& engines) {
  out += "| role | metric |";
  for (const Engine* engine : engines) out += " " + std::string(engine->name) + " |";
  out += "\n|---|---|";
  for (size_t i = 0; i < engines.size(); ++i) out += "---|";
  out += '\n';
  for (const EngineMetric& role : AllEngineMetrics()) {
    bool any = std::ranges::any_of(engines, [&](const Engine* e) { return Offers(*e, role); });
    if (!any) continue;
    out += "| " + std::string(role.name) + " | `" + std::string(role.metric->name) + "` |";
    for (const Engine* engine : engines) out += Offers(*engine, role) ? " yes |" : " – |";
    out += '\n';
  }
}

void AppendEngine(std::string& out, const Engine& engine) {
  struct RoleFamilies {
    const EngineMetric* role;
    std::vector<std::string_view> families;
  };
  std::vector<RoleFamilies> roles;
  for (const EngineMetric& role : AllEngineMetrics()) {
    if (auto families = FamiliesOf(engine, role); !families.empty()) roles.push_back({&role, families});
  }
  std::vector<NotOffered> missing;
  std::ranges::copy_if(kNotOffered, std::back_inserter(missing),
                       [&](const NotOffered& row) { return row.engine == engine.name; });
  JsonObject object(out);
  object.Text("name", engine.name);
  object.Text("layer", engine.layer);
  object.Text("provider", engine.provider);
  object.Text("path", engine.path);
  object.Whole("port", engine.port);
  object.Count("families", CountFamilies(engine));
  auto add_role = [](std::string& to, const RoleFamilies& row) {
    JsonObject role(to);
    role.Text("role", row.role->name);
    role.Text("metric", row.role->metric->name);
    role.Texts("families", row.families);
  };
  object.List("roles", roles, add_role, "\n ");
  object.List("not_offered", missing, [](std::string& to, const NotOffered& row) {
    JsonObject offer(to);
    offer.Text("role", row.role);
    offer.Text("reason", row.reason);
  });
}

}  // namespace

std::span<const NotOffered> KnownNotOffered() noexcept { return kNotOffered; }

bool Offers(const Engine& engine, const EngineMetric& role) noexcept {
  for (std::span<const EngineRow> rows : {engine.rows, ReadRows(engine)}) {
    if (std::ranges::any_of(rows, [&](const EngineRow& row) { return row.metric == role.metric; }))
      return true;
  }
  return false;
}

std::string EnginesTable(const Engine* one) {
  if (one) return OneTable(*one);
  std::string out = Padded("ENGINE", 22) + Padded("LAYER", 9) + Padded("PAGE", 28) + Padded("FAMILIES", 10) +
                    Padded("ROLES", 7) + "KNOWN BY\n";
  for (const Engine& engine : AllEngines()) {
    out += Padded(engine.name, 22) + Padded(engine.layer, 9) + Padded(PageOf(engine), 28) +
           Padded(std::to_string(CountFamilies(engine)), 10) + Padded(std::to_string(CountRoles(engine)), 7) +
           std::string(engine.recognised) + "\n";
  }
  return out + "\nRoles of one engine: gpulens engines list vllm. All roles by engine: --format md\n";
}

std::string EnginesJson(const Engine* one) {
  const std::span<const Engine> engines = one ? std::span(one, 1) : AllEngines();
  return JsonDocumentText("gpulens.engines/1",
                          [&](JsonObject& root) { root.List("engines", engines, AppendEngine, "\n", "\n"); });
}

std::string EnginesMarkdown() {
  std::string out =
      "# LLM engines\n\nMade by `gpulens engines list --format md`; a test fails when this page is stale.\n\n"
      "The metrics pages of these engines, routers, gateways and caches are mapped to one vocabulary: each\n"
      "family of an engine has a role, which determines its name `inference.*`, its unit and every other\n"
      "name. Several engines on one page are distinguished by their families. To inspect a page:\n\n"
      "    gpulens engines check http://127.0.0.1:8000/metrics     known and unknown families\n"
      "    gpulens engines read http://127.0.0.1:8000/metrics      current state of the engine\n\n"
      "A new or renamed family needs one row in `src/scrape/engine/tables`; `check` prints that row, to\n"
      "be completed. `tools/engine_pages.py ENGINE` generates a page from a table, for engines that are\n"
      "not available.\n\n"
      "How to configure a target: [collectors/engines.md](collectors/engines.md). Engines that were run in\n"
      "tests, and the findings: [engines-tested.md](engines-tested.md).\n\n"
      "## Known engines\n\n"
      "| engine | layer | page | gen_ai.provider.name | known by | families |\n|---|---|---|---|---|---|\n";
  for (const Engine& engine : AllEngines()) {
    out += "| " + std::string(engine.name) + " | " + std::string(engine.layer) + " | `" + PageOf(engine) +
           "` | " + std::string(engine.provider) + " | `" + std::string(engine.recognised) + "` | " +
           std::to_string(CountFamilies(engine)) + " |\n";
  }
  out +=
      "\nOne request passes several layers, and each layer counts it: sum over one layer only. These\n"
      "prefixes are aliases:\n"
      "\n| prefix on a page | read as |\n|---|---|\n";
  for (const engine_page::EnginePrefix& prefix : engine_page::AllPrefixes()) {
    out += "| `" + std::string(prefix.prefix) + "` | `" + std::string(prefix.canonical) + "` |\n";
  }
  out +=
      "\nTriton's vLLM backend exports the families of vllm in addition to Triton's own. NIM 1.x has names\n"
      "without a prefix and must be configured as `engine: nim`; later versions export the families of\n"
      "vllm. The start time and the memory of the process are read from any page that has them.\n";
  for (std::string_view layer : kLayers) {
    std::vector<const Engine*> engines;
    for (const Engine& engine : AllEngines()) {
      if (engine.layer == layer) engines.push_back(&engine);
    }
    out += "\n## Roles: layer `" + std::string(layer) + "`\n\n";
    if (layer == kLayers[0])
      out += "yes: reported by some version of the engine. –: not offered by the engine.\n\n";
    AppendMatrix(out, engines);
  }
  out += "\n## Not offered, and why\n\n| engine | role | why |\n|---|---|---|\n";
  for (const NotOffered& row : kNotOffered) {
    out += "| " + std::string(row.engine) + " | " + std::string(row.role) + " | " + std::string(row.reason) +
           " |\n";
  }
  return out;
}

}  // namespace gpulens
